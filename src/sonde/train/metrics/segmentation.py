"""Metrics that compare two masks: how much they overlap, how far apart their borders are.

Distances are scipy's distance transforms in float64. A mask's border are its pixels that touch the
outside or the edge of the picture. When just one of the masks is empty the distance is infinite.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import ndimage  # type: ignore[import-untyped]
from torchmetrics import MeanMetric

from sonde.train.metrics.contract import (
    MetricInputError,
    MetricInputTypeError,
    MetricValue,
    rearrange_inputs,
)
from sonde.train.metrics.gathered import GatheredMetric, Sums, float64_mean
from sonde.train.metrics.inputs import as_numpy, expect, real_pair
from sonde.train.validator import (
    check_bool,
    check_non_negative_float,
    check_positive_float,
    check_string,
    wrong_value,
)

DISTANCES = ("euclidean", "chessboard", "taxicab")


class Dice(GatheredMetric[Sums]):
    """Twice the overlap over the two sizes, of all elements seen: 1 is equal, 0 is disjoint.

    Predictions may be soft; sizes are sums of squares, which for zeros and ones are counts, so the
    value is then the F1 score. ``smooth`` is added to the size to keep two empty masks from
    dividing by zero; they give 0. NaN goes through.
    """

    def __init__(self, smooth: float = 1e-5) -> None:
        self.smooth = check_positive_float(smooth, "smooth", "Dice")

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Take predictions and true masks of one shape."""
        preds, target = real_pair("Dice", inputs)
        if preds.numel() == 0:
            return
        if self._state is None:
            self._state = Sums(2)
        self._state.update((preds * target).sum(), (preds * preds).sum() + (target * target).sum())

    def eval(self) -> MetricValue:
        """The coefficient, from 0 to 1."""
        overlap, size = self._merged().compute().tolist()
        return MetricValue(2 * overlap / (size + self.smooth))


class _BorderDistance(GatheredMetric[MeanMetric]):
    """What the distances of borders share: two masks in, the mean of their distances out."""

    def __init__(self, distance_metric: str) -> None:
        owner = type(self).__name__
        self.distance_metric = check_string(distance_metric, DISTANCES, "distance_metric", owner)

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Take a predicted picture, the true one, and the label whose regions are compared.

        A bool picture is a mask already. The label must occur in one of the two.
        """
        owner = type(self).__name__
        expect(owner, inputs, "predictions", "true values", "label")
        preds, target = (as_numpy(owner, side) for side in inputs[:2])
        label = inputs[2]
        if isinstance(label, bool) or not isinstance(label, (int, float)):
            raise MetricInputTypeError(
                f"{owner}: the label must be a number, not {type(label).__name__}",
                slug="metric-input",
            )
        if preds.size == 0 or preds.shape != target.shape:
            raise MetricInputError(
                f"{owner}: two pictures of one shape are needed, not {preds.shape} and "
                f"{target.shape}",
                slug="metric-input",
            )
        masks = [side if side.dtype == bool else side == label for side in (preds, target)]
        if not masks[0].any() and not masks[1].any():
            raise MetricInputError(
                f"{owner}: label {label} is in neither picture, so there is no distance",
                slug="metric-input",
            )
        if self._state is None:
            self._state = float64_mean()
        self._state.update(self._distance(_border(masks[0]), _border(masks[1])))

    def eval(self) -> MetricValue:
        """The distance in pixels, the mean over all pairs seen."""
        return MetricValue(self._merged().compute())

    def _distance(self, preds: np.ndarray, target: np.ndarray) -> float:
        raise NotImplementedError

    def _from(self, border: np.ndarray, other: np.ndarray) -> np.ndarray:
        """How far each pixel of a border is from the other border, in float64."""
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

    ``percentile`` takes that percentile of the distances instead of the largest. ``directed`` looks
    from the predicted border only. ``crop`` cuts the pictures to the box around both regions, which
    is faster and gives the same distance.
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
