"""Classification metrics, computed from counts of right and wrong predictions.

torchmetrics counts (as integers, so nothing is lost); the divisions are done here in float64,
because torchmetrics divides in float32. The predicted class is ``torch.argmax`` of the scores, for
which NaN is the largest score. A class that was never predicted (or never occurs) has precision (or
recall, F-score) 0, not NaN. An empty batch adds nothing.
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

from sonde.core.arguments import check_bool, check_positive_float, check_positive_int, check_string
from sonde.train.metrics.contract import MetricValue, rearrange_inputs
from sonde.train.metrics.gathered import GatheredMetric
from sonde.train.metrics.inputs import class_pair, label_sets

EVAL_TYPES = ("classification", "multilabel")

# Inputs are checked before they reach torchmetrics.
_UNCHECKED: dict[str, Any] = {"validate_args": False, "sync_on_compute": False}


class EvaluationBase(GatheredMetric[Any]):
    """Base of the metrics of classification: reads a batch, and passes it to a counter.

    A class of your own overrides ``clear``, ``update`` and ``eval``, as with ``Metric``, or only
    ``_counter``, which returns the torchmetrics object that counts.

    ``"classification"``: scores ``(N, C, ...)`` against labels ``(N, ...)``, indexes or one-hot.
    ``"multilabel"``: zeros and ones ``(N, C, ...)`` on both sides.
    """

    def __init__(self, eval_type: str = "classification") -> None:
        self.eval_type = check_string(eval_type, EVAL_TYPES, "eval_type", type(self).__name__)

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Add a batch of predictions and labels."""
        read = class_pair if self.eval_type == "classification" else label_sets
        preds, target, classes = read(type(self).__name__, inputs)
        self._check_classes(classes)
        if target.numel() == 0:
            return
        if self._state is None:
            self._state = self._counter(classes)
        self._state.update(self._predicted(preds, target).cpu(), target.cpu())

    def _counter(self, classes: int) -> Any:
        """The torchmetrics object that counts."""
        raise NotImplementedError

    def _predicted(self, preds: Tensor, target: Tensor) -> Tensor:
        """Scores as the class they choose, labels unchanged; on the device of ``preds``."""
        return preds.argmax(1) if preds.ndim > target.ndim else preds


class Accuracy(EvaluationBase):
    """The share of samples predicted right.

    ``"classification"``: scores ``(N, C, ...)`` against labels ``(N, ...)``, indexes or one-hot; a
    sample is right when its largest score is the label's. ``"multilabel"``: zeros and ones
    ``(N, C, ...)`` on both sides; a sample is right when all its C labels are.
    """

    def eval(self) -> MetricValue:
        """The share, from 0 to 1."""
        state = self._merged()
        if isinstance(state, MultilabelExactMatch):
            correct: Any = state.correct
            return MetricValue(int(correct) / int(state.total))
        right, _, _, _, samples = state.compute().tolist()
        return MetricValue(right / samples)

    def _counter(self, classes: int) -> Any:
        if self.eval_type == "classification":
            return MulticlassStatScores(classes, average="micro", **_UNCHECKED)
        return MultilabelExactMatch(classes, **_UNCHECKED)


class _PerClass(EvaluationBase):
    """Base of precision, recall and F-score: a value for each class, from its counts."""

    def eval(self, average: bool = False) -> Any:
        """The value of each class as a float64 array; with ``average``, their plain mean."""
        check_bool(average, "average", type(self).__name__)
        counts = self._merged().compute().double()
        values = self._value(*counts.reshape(-1, 5)[:, :4].unbind(1))
        array: np.ndarray = torch.nan_to_num(values, nan=0.0).numpy()
        return MetricValue(array.mean()) if average else array

    def _counter(self, classes: int) -> Any:
        is_multilabel = self.eval_type == "multilabel"
        counter = MultilabelStatScores if is_multilabel else MulticlassStatScores
        return counter(classes, average="none", **_UNCHECKED)

    def _value(self, tp: Tensor, fp: Tensor, tn: Tensor, fn: Tensor) -> Tensor:
        raise NotImplementedError


class Precision(_PerClass):
    """Of the samples predicted as a class, the share that belongs to it; inputs as ``Accuracy``."""

    def _value(self, tp: Tensor, fp: Tensor, tn: Tensor, fn: Tensor) -> Tensor:
        return tp / (tp + fp)


class Recall(_PerClass):
    """Of the samples that belong to a class, the share predicted as it; inputs as ``Accuracy``."""

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


class TopKCategoricalAccuracy(Accuracy):
    """The share of samples whose label is among the ``k`` largest scores.

    Takes scores ``(N, C, ...)`` and labels ``(N, ...)``, indexes or one-hot. With ``k`` of at least
    the number of classes every sample is right. ``torch.topk`` breaks ties at the border.
    """

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = check_positive_int(k, "k", type(self).__name__)

    def _counter(self, classes: int) -> Any:
        return MulticlassStatScores(
            classes, average="micro", top_k=min(self.k, classes), **_UNCHECKED
        )

    def _predicted(self, preds: Tensor, target: Tensor) -> Tensor:
        """The scores themselves, as floats."""
        return preds if preds.is_floating_point() else preds.double()


class Top1CategoricalAccuracy(TopKCategoricalAccuracy):
    """The share of samples whose label has the largest score."""

    def __init__(self) -> None:
        super().__init__(1)


class Top5CategoricalAccuracy(TopKCategoricalAccuracy):
    """The share of samples whose label is among the five largest scores."""

    def __init__(self) -> None:
        super().__init__(5)
