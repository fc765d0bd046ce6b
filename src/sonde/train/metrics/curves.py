"""The ROC curve and the area under a curve.

torchmetrics computes the curve, with two corrections. Scores are replaced by their rank first,
because torchmetrics treats scores outside 0..1 as logits and applies a float32 sigmoid, which makes
large scores equal. Rates, which torchmetrics divides in float32, are converted back to counts and
divided in float64. NaN scores are an error, because they cannot be ordered.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torchmetrics.functional.classification import binary_roc
from torchmetrics.utilities.compute import auc as torchmetrics_auc

from sonde.core.arguments import check_bool, check_positive_int, check_value_type
from sonde.train.metrics.contract import (
    MetricInputError,
    MetricInputTypeError,
    MetricValue,
    rearrange_inputs,
)
from sonde.train.metrics.gathered import GatheredMetric, Rows
from sonde.train.metrics.inputs import tensors

Curve = tuple[np.ndarray, np.ndarray, np.ndarray]


class ROC(GatheredMetric[Rows]):
    """False and true positive rates at every threshold.

    Binary: scores and labels of one shape; ``pos_label`` (1 when not given) is the positive label.
    Several classes: scores ``(N, C, ...)`` and labels ``(N, ...)``, each class against the rest.
    ``class_num`` is checked when given. All scores are kept in memory until ``clear``.
    """

    def __init__(self, class_num: int | None = None, pos_label: int | None = None) -> None:
        owner = type(self).__name__
        if class_num is not None:
            check_positive_int(class_num, "class_num", owner)
        if pos_label is not None:
            check_value_type("pos_label", pos_label, [int], owner)
        self.class_num = class_num
        self.pos_label = pos_label

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Add a batch of scores and labels."""
        owner = type(self).__name__
        scores, labels = (one.cpu() for one in tensors(owner, inputs, "scores", "labels"))
        rows = self._as_rows(scores.double(), labels)
        if bool(rows.isnan().any()):
            raise MetricInputError(f"{owner}: scores must not be NaN")
        if labels.numel() == 0:
            return
        self._check_classes(rows.shape[1])
        state = self._state_or(lambda: Rows(2, num_classes=rows.shape[1]))
        state.update(rows, labels.reshape(-1).long())

    def _as_rows(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Scores as ``(samples, classes)``; one column is the binary case."""
        owner = type(self).__name__
        if scores.shape == labels.shape:
            rows = scores.reshape(-1, 1)
        elif scores.ndim == labels.ndim + 1 and scores.ndim >= 2 and self.pos_label is None:
            rows = scores.movedim(1, -1).reshape(-1, scores.shape[1])
        else:
            raise MetricInputError(
                f"{owner}: scores {tuple(scores.shape)} and labels {tuple(labels.shape)} do not "
                "fit: they have one shape (binary), or the scores have one more dimension of "
                "classes, and pos_label is not given"
            )
        if rows.shape[0] != labels.numel() or self.class_num not in (None, rows.shape[1]):
            raise MetricInputError(
                f"{owner}: {rows.shape[0]} rows of {rows.shape[1]} classes do not fit "
                f"{labels.numel()} labels and class_num {self.class_num}"
            )
        return rows

    def eval(self) -> Any:
        """``(fpr, tpr, thresholds)`` as arrays; with several classes, lists of one per class.

        The first threshold is the largest score plus 1, where no sample is positive. Labels without
        a positive or without a negative sample are a ``MetricInputError``.
        """
        curves = self._curves()
        if len(curves) == 1:
            return curves[0]
        fpr, tpr, thresholds = (list(column) for column in zip(*curves, strict=True))
        return fpr, tpr, thresholds

    def _curves(self) -> list[Curve]:
        scores, labels = self._merged().compute()
        owner = type(self).__name__
        positives = list(range(scores.shape[1]))
        if len(positives) == 1:
            positives = [1 if self.pos_label is None else self.pos_label]
        return [
            _curve(owner, column, labels == label, label)
            for column, label in zip(scores.unbind(1), positives, strict=True)
        ]


class AUC(ROC):
    """The area under the ROC curve; with several classes, the plain mean over the classes."""

    def eval(self, average: bool = True) -> Any:
        """The area, from 0 to 1; without ``average``, an array with the area of each class."""
        check_bool(average, "average", "AUC")
        areas = np.array([auc(fpr, tpr) for fpr, tpr, _ in self._curves()])
        return MetricValue(areas.mean()) if average else areas


def auc(x: Any, y: Any, reorder: bool = False) -> MetricValue:
    """The area under the points ``(x, y)`` by the trapezoidal rule, in float64.

    ``x`` must be monotonic; ``reorder`` sorts it first.
    """
    if not isinstance(x, np.ndarray) or not isinstance(y, np.ndarray):
        raise MetricInputTypeError(
            f"auc takes two numpy arrays, not {type(x).__name__} and {type(y).__name__}"
        )
    x, y = (np.array(side, dtype=np.float64).reshape(-1) for side in (x, y))
    if x.size != y.size or x.size < 2:
        raise MetricInputError(
            f"auc takes two arrays of one length of at least 2, not {x.size} and {y.size}"
        )
    moves = np.diff(x)
    if not reorder and (moves < 0).any() and (moves > 0).any():
        raise MetricInputError("auc: x must rise or fall throughout; pass reorder=True to sort it")
    return MetricValue(
        torchmetrics_auc(torch.from_numpy(x), torch.from_numpy(y), reorder=bool(reorder))
    )


def _curve(owner: str, scores: Tensor, positive: Tensor, label: int) -> Curve:
    """The curve of one class; ``label`` is for messages."""
    positives = int(positive.sum())
    negatives = positive.numel() - positives
    if positives == 0 or negatives == 0:
        missing = "positive" if positives == 0 else "negative"
        raise MetricInputError(
            f"{owner}: no sample is {missing} for label {label}, so the curve has no meaning"
        )
    values, ranks = torch.unique(scores, return_inverse=True)
    fpr, tpr, thresholds = binary_roc(ranks.double() / len(values), positive.long())
    order = (thresholds[1:].double() * len(values)).round().long()
    return (
        _exact(fpr, negatives),
        _exact(tpr, positives),
        torch.cat([values[-1:] + 1, values[order]]).numpy(),
    )


def _exact(rate: Tensor, samples: int) -> np.ndarray:
    """A rate of so many samples, which torchmetrics divided in float32, divided in float64."""
    array: np.ndarray = ((rate.double() * samples).round() / samples).numpy()
    return array
