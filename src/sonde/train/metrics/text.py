"""Metrics for language models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torchmetrics.text

from sonde.core.arguments import check_bool, check_positive_int, check_value_type, wrong_value
from sonde.train.metrics.contract import MetricInputError, MetricValue, rearrange_inputs
from sonde.train.metrics.gathered import GatheredMetric, Sums, in_float64, not_ready
from sonde.train.metrics.inputs import class_labels, expect, tensors

SMALLEST_PROBABILITY = 1e-10
LONGEST_N_GRAM = 4


class Perplexity(GatheredMetric[Any]):
    """The inverse of the geometric mean of the probabilities of the labels.

    ``update`` takes probabilities; those below 1e-10 count as 1e-10, so the value is never
    infinite. With ``from_logits`` it takes the network's raw scores, which torchmetrics converts to
    probabilities. Samples labelled ``ignore_label`` do not count. Computed in float64; NaN
    propagates.
    """

    def __init__(self, ignore_label: int | None = None, *, from_logits: bool = False) -> None:
        if ignore_label is not None:
            check_value_type("ignore_label", ignore_label, [int], "Perplexity")
        self.ignore_label = ignore_label
        self.from_logits = check_bool(from_logits, "from_logits", "Perplexity")

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Add predictions ``(..., C)`` and labels ``(...)``."""
        preds, target = tensors("Perplexity", inputs, "predictions", "labels")
        preds, target = preds.cpu().double(), target.cpu().reshape(-1)
        if preds.ndim == 0 or target.numel() * preds.shape[-1] != preds.numel():
            raise MetricInputError(
                f"Perplexity: predictions {tuple(preds.shape)} need one label for each row of "
                f"{preds.shape[-1] if preds.ndim else 0} classes, not {target.numel()} labels"
            )
        preds = preds.reshape(-1, preds.shape[-1])
        if self.ignore_label is not None:
            counted = target != self.ignore_label
            preds, target = preds[counted], target[counted]
        target = class_labels("Perplexity", target, preds.shape[-1])
        if target.numel() == 0:
            return
        if self.from_logits:
            self._state_or(_logits_state).update(preds.unsqueeze(0), target.unsqueeze(0))
        else:
            chosen = preds.gather(1, target.unsqueeze(1)).clamp(min=SMALLEST_PROBABILITY)
            self._state_or(lambda: Sums(2)).update(-chosen.log().sum(), target.numel())

    def eval(self) -> MetricValue:
        """The perplexity, at least 1 when the predictions are probabilities."""
        state = self._merged()
        if isinstance(state, Sums):
            surprise, samples = state.compute().tolist()
            return MetricValue(math.exp(surprise / samples))
        return MetricValue(state.compute())


def _logits_state() -> torchmetrics.Metric:
    options: dict[str, Any] = {"sync_on_compute": False}
    return in_float64(torchmetrics.text.Perplexity(**options))


class _MergingBleu(torchmetrics.text.BLEUScore):
    """torchmetrics' BLEU; its state is sums, so two instances merge by addition."""

    full_state_update = False


class BleuScore(GatheredMetric[_MergingBleu]):
    """The share of the candidates' n-grams that the references have, with a brevity penalty.

    0 when no n-gram of some length up to ``n_gram`` is shared. ``smooth`` adds one to the counts of
    all lengths but the first.
    """

    def __init__(self, n_gram: int = 4, smooth: bool = False) -> None:
        self.n_gram = check_positive_int(n_gram, "n_gram", "BleuScore")
        if n_gram > LONGEST_N_GRAM:
            raise wrong_value("n_gram", "BleuScore", "must be from 1 to 4", n_gram)
        self.smooth = check_bool(smooth, "smooth", "BleuScore")

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Add candidates and, for each, its references: lists of words, or text to be split.

        Token ids may be given as lists, arrays or tensors.
        """
        expect("BleuScore", inputs, "candidates", "references")
        candidates, references = (_listed(one) for one in inputs)
        if len(candidates) != len(references):
            raise MetricInputError(
                f"BleuScore: {len(candidates)} candidates need as many lists of references, "
                f"not {len(references)}"
            )
        state = self._state_or(
            lambda: in_float64(
                _MergingBleu(n_gram=self.n_gram, smooth=self.smooth, sync_on_compute=False)
            )
        )
        numbers: dict[Any, int] = {}
        state.update(
            [_spelled(text, numbers) for text in candidates],
            [[_spelled(text, numbers) for text in _listed(choices)] for choices in references],
        )

    def eval(self) -> MetricValue:
        """The score, from 0 to 1."""
        state = self._merged()
        if not bool(state.preds_len):
            raise not_ready("BleuScore")
        return MetricValue(state.compute())


def _listed(given: Any) -> Sequence[Any]:
    """A list or tuple unchanged; an array or tensor as a list of its values."""
    values = given.tolist() if hasattr(given, "tolist") else given
    if not isinstance(values, list | tuple):
        raise MetricInputError(
            "BleuScore takes a list of candidates and, for each, a list of references; each is a "
            f"text or a list of words; got {given!r} for a list"
        )
    return values


def _spelled(text: str | Sequence[Any], numbers: dict[Any, int]) -> str:
    """Words as numbers between spaces: torchmetrics splits at spaces, which words may contain."""
    words = text.split() if isinstance(text, str) else _listed(text)
    return " ".join(str(numbers.setdefault(word, len(numbers))) for word in words)
