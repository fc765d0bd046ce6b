"""Metrics of classification, all from the counts of right and wrong answers.

torchmetrics counts (as integers, so nothing is lost); the divisions are done here in float64,
because torchmetrics divides in float32. Scores are compared with ``torch.argmax``, for which NaN is
the largest score. A class that was never predicted (or never occurs) has precision (or recall,
F-score) 0, not NaN. An empty batch adds nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torchmetrics.classification import (
    MulticlassStatScores,
    MultilabelExactMatch,
    MultilabelStatScores,
)

from sonde.train.metrics.contract import MetricValue, rearrange_inputs
from sonde.train.metrics.gathered import GatheredMetric
from sonde.train.metrics.inputs import class_pair, label_sets
from sonde.train.validator import (
    check_bool,
    check_positive_float,
    check_positive_int,
    check_string,
)

EVAL_TYPES = ("classification", "multilabel")

Counts = MulticlassStatScores | MultilabelStatScores


class Accuracy(GatheredMetric[MulticlassStatScores | MultilabelExactMatch]):
    """The share of samples answered right.

    ``"classification"``: scores ``(N, C, ...)`` against labels ``(N, ...)``, indexes or one-hot; a
    sample is right when its largest score is the label's. ``"multilabel"``: zeros and ones
    ``(N, C, ...)`` on both sides; a sample is right when all its C labels are.
    """

    def __init__(self, eval_type: str = "classification") -> None:
        self.eval_type = check_string(eval_type, EVAL_TYPES, "eval_type", "Accuracy")

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Take predictions and labels."""
        kind: Any
        if self.eval_type == "classification":
            preds, target, classes = class_pair("Accuracy", inputs)
            kind = MulticlassStatScores
        else:
            preds, target, classes = label_sets("Accuracy", inputs)
            kind = MultilabelExactMatch
        self._check_classes(classes)
        if target.numel() == 0:
            return
        if self._state is None:
            self._state = _counter(kind, classes, average="micro")
        self._state.update(_labels(preds, target).cpu(), target.cpu())

    def eval(self) -> MetricValue:
        """The share, from 0 to 1."""
        state = self._merged()
        if isinstance(state, MultilabelExactMatch):
            return MetricValue(_whole(state.correct) / _whole(state.total))
        right, _, _, _, samples = state.compute().tolist()
        return MetricValue(right / samples)


class _PerClass(GatheredMetric[Counts]):
    """What precision, recall and F-score share: counts per class, and a value per class."""

    def __init__(self, eval_type: str = "classification") -> None:
        self.eval_type = check_string(eval_type, EVAL_TYPES, "eval_type", type(self).__name__)

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Take predictions and labels, shaped as for ``Accuracy``."""
        kind: Any
        if self.eval_type == "classification":
            preds, target, classes = class_pair(type(self).__name__, inputs)
            kind = MulticlassStatScores
        else:
            preds, target, classes = label_sets(type(self).__name__, inputs)
            kind = MultilabelStatScores
        self._check_classes(classes)
        if target.numel() == 0:
            return
        if self._state is None:
            self._state = _counter(kind, classes, average="none")
        self._state.update(_labels(preds, target).cpu(), target.cpu())

    def eval(self, average: bool = False) -> Any:
        """The value of each class as a float64 array; with ``average``, their plain mean."""
        check_bool(average, "average", type(self).__name__)
        counts = self._merged().compute().double()
        values = self._value(*counts.reshape(-1, 5)[:, :4].unbind(1))
        array: np.ndarray = torch.nan_to_num(values, nan=0.0).numpy()
        return MetricValue(array.mean()) if average else array

    def _value(self, tp: Tensor, fp: Tensor, tn: Tensor, fn: Tensor) -> Tensor:
        raise NotImplementedError


class Precision(_PerClass):
    """Of the samples given to a class, the share that belongs to it."""

    def _value(self, tp: Tensor, fp: Tensor, tn: Tensor, fn: Tensor) -> Tensor:
        return tp / (tp + fp)


class Recall(_PerClass):
    """Of the samples that belong to a class, the share that was given to it."""

    def _value(self, tp: Tensor, fp: Tensor, tn: Tensor, fn: Tensor) -> Tensor:
        return tp / (tp + fn)


class Fbeta(_PerClass):
    """The weighted harmonic mean of precision and recall; ``beta`` > 1 favours recall."""

    def __init__(self, beta: float, eval_type: str = "classification") -> None:
        super().__init__(eval_type)
        self.beta = check_positive_float(beta, "beta", type(self).__name__)

    def _value(self, tp: Tensor, fp: Tensor, tn: Tensor, fn: Tensor) -> Tensor:
        weight = self.beta**2
        return (1 + weight) * tp / ((1 + weight) * tp + weight * fn + fp)


class F1(Fbeta):
    """The harmonic mean of precision and recall."""

    def __init__(self, eval_type: str = "classification") -> None:
        super().__init__(1.0, eval_type)


class TopKCategoricalAccuracy(GatheredMetric[MulticlassStatScores]):
    """The share of samples whose label is among the ``k`` largest scores.

    With ``k`` of at least the number of classes every sample is right. Of equal scores at the
    border, which one counts is torch.topk's choice.
    """

    def __init__(self, k: int) -> None:
        self.k = check_positive_int(k, "k", type(self).__name__)

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Take scores ``(N, C, ...)`` and labels ``(N, ...)``, indexes or one-hot."""
        preds, target, classes = class_pair(type(self).__name__, inputs)
        self._check_classes(classes)
        if target.numel() == 0:
            return
        if self._state is None:
            self._state = _counter(
                MulticlassStatScores, classes, average="micro", top_k=min(self.k, classes)
            )
        scores = preds.cpu() if preds.is_floating_point() else preds.cpu().double()
        self._state.update(scores, target.cpu())

    def eval(self) -> MetricValue:
        """The share, from 0 to 1."""
        right, _, _, _, samples = self._merged().compute().tolist()
        return MetricValue(right / samples)


class Top1CategoricalAccuracy(TopKCategoricalAccuracy):
    """The share of samples whose label has the largest score."""

    def __init__(self) -> None:
        super().__init__(1)


class Top5CategoricalAccuracy(TopKCategoricalAccuracy):
    """The share of samples whose label is among the five largest scores."""

    def __init__(self) -> None:
        super().__init__(5)


def _labels(preds: Tensor, target: Tensor) -> Tensor:
    """Scores as the class they choose, on the device where they are; labels as they are."""
    return preds.argmax(1) if preds.ndim > target.ndim else preds


def _whole(count: Any) -> int:
    return int(count)


def _counter(kind: Any, classes: int, *, average: Any, top_k: int = 1) -> Any:
    """A torchmetrics counter; inputs are checked before they reach it, so its checks are off."""
    options: dict[str, Any] = {"validate_args": False, "sync_on_compute": False}
    if kind is MulticlassStatScores:
        return kind(num_classes=classes, average=average, top_k=top_k, **options)
    if kind is MultilabelExactMatch:
        return kind(num_labels=classes, **options)
    return kind(num_labels=classes, average=average, **options)
