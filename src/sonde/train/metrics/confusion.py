"""The confusion matrix and the measures computed from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torchmetrics.classification import MulticlassConfusionMatrix

from sonde.core.arguments import (
    check_bool,
    check_non_negative_float,
    check_positive_int,
    check_string,
)
from sonde.train.metrics.contract import MetricInputError, MetricValue, rearrange_inputs
from sonde.train.metrics.gathered import GatheredMetric, Rows
from sonde.train.metrics.inputs import class_labels, is_binary, tensors

NORMALIZATIONS = ("no_norm", "target", "prediction", "all")
REDUCTIONS = ("none", "mean", "sum", "mean_batch", "sum_batch", "mean_channel", "sum_channel")


class ConfusionMatrix(GatheredMetric[MulticlassConfusionMatrix]):
    """How often each true class (row) was predicted as each class (column).

    ``normalize`` divides by the sum of the row (``"target"``), the column (``"prediction"``) or the
    matrix (``"all"``); where that sum is 0, the entry is 0. ``num_classes`` is optional when the
    predictions have a dimension of classes.
    """

    def __init__(
        self, num_classes: int | None = None, normalize: str = "no_norm", threshold: float = 0.5
    ) -> None:
        if num_classes is not None:
            check_positive_int(num_classes, "num_classes", "ConfusionMatrix")
        self.num_classes = num_classes
        self.normalize = check_string(normalize, NORMALIZATIONS, "normalize", "ConfusionMatrix")
        self.threshold = check_non_negative_float(threshold, "threshold", "ConfusionMatrix")

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Add a batch of predictions and labels ``(N, ...)``.

        Predictions are scores ``(N, C, ...)``, classes ``(N, ...)``, or floats ``(N, ...)`` that
        count as class 1 from ``threshold`` on.
        """
        owner = "ConfusionMatrix"
        preds, target = tensors(owner, inputs, "predictions", "labels")
        scores_given = preds.ndim == target.ndim + 1 and preds.ndim >= 2
        classes = self.num_classes or (preds.shape[1] if scores_given else None)
        if classes is None:
            raise MetricInputError(
                "ConfusionMatrix: without a dimension of classes the predictions do not say how "
                "many there are; give num_classes"
            )
        if scores_given:
            preds = preds.argmax(1)
        elif preds.is_floating_point():
            preds = (preds >= self.threshold).long()
        if preds.shape != target.shape:
            raise MetricInputError(
                f"ConfusionMatrix: predictions {tuple(preds.shape)} and labels "
                f"{tuple(target.shape)} must have one shape, or the predictions one more dimension "
                "of classes"
            )
        self._check_classes(classes)
        preds, target = (class_labels(owner, side, classes) for side in (preds, target))
        if target.numel() == 0:
            return
        state = self._state_or(
            lambda: MulticlassConfusionMatrix(classes, validate_args=False, sync_on_compute=False)
        )
        state.update(preds.cpu(), target.cpu())

    def eval(self) -> np.ndarray:
        """The matrix as float64, true classes down, predicted classes across."""
        matrix: np.ndarray = self._merged().compute().double().numpy()
        if self.normalize == "no_norm":
            return matrix
        axis = {"target": 1, "prediction": 0, "all": None}[self.normalize]
        whole = matrix.sum(axis=axis, keepdims=True)
        shares: np.ndarray = np.divide(matrix, whole, out=np.zeros_like(matrix), where=whole != 0)
        return shares


class ConfusionMatrixMetric(GatheredMetric[Rows]):
    """One measure of a confusion matrix, such as sensitivity, over one-hot predictions.

    ``skip_channel`` leaves out the first class, usually the background. With
    ``calculation_method`` False all samples and classes are counted together. With True the
    measure is computed for each class of each sample, undefined measures (NaN) are left out, and
    ``decrease`` reduces the others: ``"none"`` returns ``(samples, classes)`` with 0 for undefined
    measures, ``"mean"`` and ``"sum"`` one number, ``"mean_batch"`` and ``"sum_batch"`` one per
    class, ``"mean_channel"`` and ``"sum_channel"`` one per sample.
    """

    def __init__(
        self,
        skip_channel: bool = True,
        metric_name: str = "sensitivity",
        calculation_method: bool = False,
        decrease: str = "mean",
    ) -> None:
        owner = "ConfusionMatrixMetric"
        self.skip_channel = check_bool(skip_channel, "skip_channel", owner)
        self.calculation_method = check_bool(calculation_method, "calculation_method", owner)
        self.decrease = check_string(decrease, REDUCTIONS, "decrease", owner)
        spelled = metric_name.replace(" ", "_").lower() if isinstance(metric_name, str) else ""
        check_string(spelled, sorted(MEASURES), "metric_name", owner)
        self.metric_name = spelled

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Add one-hot predictions and labels, both ``(N, C, ...)`` of zeros and ones."""
        owner = "ConfusionMatrixMetric"
        preds, target = (one.cpu() for one in tensors(owner, inputs, "predictions", "labels"))
        are_binary = is_binary(preds) and is_binary(target)
        if preds.ndim < 2 or preds.shape != target.shape or not are_binary:
            raise MetricInputError(
                f"{owner}: predictions {tuple(preds.shape)} and labels {tuple(target.shape)} must "
                "be zeros and ones of one shape (N, C, ...)"
            )
        if self.skip_channel and preds.shape[1] > 1:
            preds, target = preds[:, 1:], target[:, 1:]
        if preds.numel() == 0:
            return
        self._check_classes(preds.shape[1])
        state = self._state_or(lambda: Rows(1, num_classes=preds.shape[1]))
        state.update(_counts(preds.bool(), target.bool()))

    def eval(self) -> Any:
        """The measure; NaN when it is undefined, as the sensitivity without positive samples."""
        (counts,) = self._merged().compute()
        measure = MEASURES[self.metric_name]
        with np.errstate(divide="ignore", invalid="ignore"):
            if not self.calculation_method:
                return MetricValue(measure(*counts.double().sum((0, 1)).numpy()))
            values = measure(*counts.double().unbind(-1))
        return _reduced(values.numpy(), self.decrease)


def _counts(preds: Tensor, target: Tensor) -> Tensor:
    """Counts ``(N, C, 4)``: true and false positives, true and false negatives."""
    preds, target = (side.reshape(*side.shape[:2], -1) for side in (preds, target))
    hits = (preds & target, preds & ~target, ~preds & ~target, ~preds & target)
    return torch.stack([hit.sum(2) for hit in hits], dim=-1)


def _reduced(values: np.ndarray, how: str) -> Any:
    """Reduce ``(samples, classes)``; means leave out NaN, and the mean of nothing is 0."""
    defined = ~np.isnan(values)
    values = np.where(defined, values, 0.0)
    if how == "none":
        return values
    if how == "sum":
        return MetricValue(values.sum())
    if how == "mean":
        per_sample = _mean(values, defined, axis=1)
        return MetricValue(_mean(per_sample, defined.any(axis=1), axis=0))
    axis = 0 if how.endswith("batch") else 1
    return values.sum(axis=axis) if how.startswith("sum") else _mean(values, defined, axis)


def _mean(values: np.ndarray, defined: np.ndarray, axis: int) -> Any:
    counted = defined.sum(axis=axis)
    return (values * defined).sum(axis=axis) / np.maximum(counted, 1)


def _prevalence_threshold(tp: Any, fp: Any, tn: Any, fn: Any) -> Any:
    hit, fall = tp / (tp + fn), fp / (fp + tn)
    return ((hit * fall) ** 0.5 - fall) / (hit - fall)


def _matthews(tp: Any, fp: Any, tn: Any, fn: Any) -> Any:
    return (tp * tn - fp * fn) / ((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)) ** 0.5


_RULES: dict[tuple[str, ...], Callable[[Any, Any, Any, Any], Any]] = {
    ("sensitivity", "recall", "hit_rate", "true_positive_rate", "tpr"): (
        lambda tp, fp, tn, fn: tp / (tp + fn)
    ),
    ("specificity", "selectivity", "true_negative_rate", "tnr"): (
        lambda tp, fp, tn, fn: tn / (tn + fp)
    ),
    ("precision", "positive_predictive_value", "ppv"): lambda tp, fp, tn, fn: tp / (tp + fp),
    ("negative_predictive_value", "npv"): lambda tp, fp, tn, fn: tn / (tn + fn),
    ("miss_rate", "false_negative_rate", "fnr"): lambda tp, fp, tn, fn: fn / (fn + tp),
    ("fall_out", "false_positive_rate", "fpr"): lambda tp, fp, tn, fn: fp / (fp + tn),
    ("false_discovery_rate", "fdr"): lambda tp, fp, tn, fn: fp / (fp + tp),
    ("false_omission_rate", "for"): lambda tp, fp, tn, fn: fn / (fn + tn),
    ("prevalence_threshold", "pt"): _prevalence_threshold,
    ("threat_score", "critical_success_index", "ts", "csi"): (
        lambda tp, fp, tn, fn: tp / (tp + fn + fp)
    ),
    ("accuracy", "acc"): lambda tp, fp, tn, fn: (tp + tn) / (tp + tn + fp + fn),
    ("balanced_accuracy", "ba"): lambda tp, fp, tn, fn: (tp / (tp + fn) + tn / (tn + fp)) / 2,
    ("f1_score", "f1"): lambda tp, fp, tn, fn: 2 * tp / (2 * tp + fn + fp),
    ("matthews_correlation_coefficient", "mcc"): _matthews,
    ("fowlkes_mallows_index", "fm"): (
        lambda tp, fp, tn, fn: (tp / (tp + fp) * tp / (tp + fn)) ** 0.5
    ),
    ("informedness", "bookmaker_informedness", "bm"): (
        lambda tp, fp, tn, fn: tp / (tp + fn) + tn / (tn + fp) - 1
    ),
    ("markedness", "deltap", "mk"): lambda tp, fp, tn, fn: tp / (tp + fp) + tn / (tn + fn) - 1,
}

MEASURES = {name: rule for names, rule in _RULES.items() for name in names}
"""Every name of a measure, in its long and short forms, and how it follows from the counts."""
