"""Metrics that compare two masks: how much they overlap, how far apart their borders are.

Distances are computed by scipy's distance transforms, in float64. The border of a mask are its
pixels next to the outside or to the edge of the picture. When exactly one of the masks is empty,
the distance is infinite.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import ndimage  # type: ignore[import-untyped]
from torch import Tensor
from torchmetrics import MeanMetric

from sonde.core.arguments import (
    check_bool,
    check_non_negative_float,
    check_positive_float,
    check_string,
    wrong_value,
)
from sonde.train.metrics.contract import (
    MetricInputError,
    MetricInputTypeError,
    MetricValue,
    rearrange_inputs,
)
from sonde.train.metrics.gathered import GatheredMetric, Sums, float64_mean
from sonde.train.metrics.inputs import as_numpy, as_tensor, expect
from sonde.train.metrics.regression import PairMetric

DISTANCES = ("euclidean", "chessboard", "taxicab")


class Dice(PairMetric):
    """Twice the overlap of two masks divided by the sum of their sizes: 1 is equal, 0 is disjoint.

    Predictions may be fractions. Sizes are sums of squares; for zeros and ones they are counts and
    the value is the F1 score. ``smooth`` is added to the divisor, so that two empty masks give 0.
    NaN propagates.
    """

    def __init__(self, smooth: float = 1e-5) -> None:
        self.smooth = check_positive_float(smooth, "smooth", "Dice")

    def _new_state(self) -> Sums:
        return Sums(2)

    def _terms(self, preds: Tensor, target: Tensor) -> tuple[Tensor, ...]:
        return (preds * target).sum(), (preds * preds).sum() + (target * target).sum()

    def eval(self) -> MetricValue:
        """The coefficient, from 0 to 1."""
        overlap, size = self._merged().compute().tolist()
        return MetricValue(2 * overlap / (size + self.smooth))


class _BorderDistance(GatheredMetric[MeanMetric]):
    """The mean of a distance between the borders of two masks, over the pairs of masks."""

    def __init__(self, distance_metric: str) -> None:
        owner = type(self).__name__
        self.distance_metric = check_string(distance_metric, DISTANCES, "distance_metric", owner)

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Add a predicted picture, the true one, and the label whose regions are compared.

        A bool picture is used as the mask itself. The label must occur in one of the two.
        """
        owner = type(self).__name__
        expect(owner, inputs, "predictions", "true values", "label")
        preds, target = (as_numpy(as_tensor(owner, side)) for side in inputs[:2])
        label = inputs[2]
        if isinstance(label, bool) or not isinstance(label, (int, float)):
            raise MetricInputTypeError(
                f"{owner}: the label must be a number, not {type(label).__name__}"
            )
        if preds.size == 0 or preds.shape != target.shape:
            raise MetricInputError(
                f"{owner}: two pictures of one shape are needed, not {preds.shape} and "
                f"{target.shape}"
            )
        masks = [side if side.dtype == bool else side == label for side in (preds, target)]
        if not masks[0].any() and not masks[1].any():
            raise MetricInputError(
                f"{owner}: label {label} is in neither picture, so there is no distance"
            )
        distance = self._distance(_border(masks[0]), _border(masks[1]))
        self._state_or(float64_mean).update(distance)

    def _distance(self, preds: np.ndarray, target: np.ndarray) -> float:
        raise NotImplementedError

    def _from(self, border: np.ndarray, other: np.ndarray) -> np.ndarray:
        """The distance of each pixel of a border from the other border, in float64."""
        if not other.any():
            return np.full(int(border.sum()), np.inf)
        if self.distance_metric == "euclidean":
            field = ndimage.distance_transform_edt(~other)
        else:
            field = ndimage.distance_transform_cdt(~other, metric=self.distance_metric)
        chosen: np.ndarray = field[border].astype(np.float64)
        return chosen


class HausdorffDistance(_BorderDistance):
    """The largest distance of a border pixel from the other border.

    ``percentile`` takes that percentile of the distances instead of the largest. ``directed``
    measures from the predicted border only. ``crop`` crops the pictures to the box around both
    regions, which is faster and gives the same distance.
    """

    def __init__(
        self,
        distance_metric: str = "euclidean",
        percentile: float | None = None,
        directed: bool = False,
        crop: bool = True,
    ) -> None:
        super().__init__(distance_metric)
        if percentile is not None:
            check_non_negative_float(percentile, "percentile", "HausdorffDistance")
            if percentile > 100:
                raise wrong_value("percentile", "HausdorffDistance", "must be 0 to 100", percentile)
        self.percentile = percentile
        self.directed = check_bool(directed, "directed", "HausdorffDistance")
        self.crop = check_bool(crop, "crop", "HausdorffDistance")

    def _distance(self, preds: np.ndarray, target: np.ndarray) -> float:
        if self.crop:
            (box,) = ndimage.find_objects((preds | target).astype(np.uint8))
            preds, target = preds[box], target[box]
        forth = self._largest(preds, target)
        return forth if self.directed else max(forth, self._largest(target, preds))

    def _largest(self, border: np.ndarray, other: np.ndarray) -> float:
        distances = self._from(border, other)
        if distances.size == 0:
            return math.inf
        if self.percentile is None:
            return float(distances.max())
        return float(np.percentile(distances, self.percentile))


class MeanSurfaceDistance(_BorderDistance):
    """The mean distance of the predicted border's pixels from the true border.

    ``symmetric`` takes the pixels of both borders together.
    """

    def __init__(self, symmetric: bool = False, distance_metric: str = "euclidean") -> None:
        super().__init__(distance_metric)
        self.symmetric = check_bool(symmetric, "symmetric", type(self).__name__)

    def _distance(self, preds: np.ndarray, target: np.ndarray) -> float:
        if not preds.any():
            return math.inf
        distances = self._from(preds, target)
        if self.symmetric:
            distances = np.concatenate([distances, self._from(target, preds)])
        return self._mean(distances)

    def _mean(self, distances: np.ndarray) -> float:
        return float(distances.mean())


class RootMeanSquareDistance(MeanSurfaceDistance):
    """The root of the mean squared distance of the predicted border's pixels from the true one.

    ``symmetric`` takes the pixels of both borders together.
    """

    def _mean(self, distances: np.ndarray) -> float:
        return float(np.sqrt(np.mean(distances**2)))


def _border(mask: np.ndarray) -> np.ndarray:
    border: np.ndarray = mask & ~ndimage.binary_erosion(mask)
    return border
