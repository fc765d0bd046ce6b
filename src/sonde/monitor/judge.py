"""Judges the signals of a step, before the optimizer changes the weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from sonde.monitor.expression import TriggerExpression
from sonde.monitor.history import SignalSeries
from sonde.monitor.lost_gradients import PassCounts
from sonde.monitor.signals import HISTORICAL, Signals
from sonde.monitor.spikes import HISTORY_STEPS, SpikeDetector, is_other_rate
from sonde.monitor.triggers import Trigger

MOST_SKIPPED: Final = 20
"""Steps in a row that a GradScaler may skip. A scale of 2**16 is 2**-4 after 20 halvings: gradients
that are still not finite then do not overflow because of the scale."""


@dataclass(slots=True)
class _History:
    """What is known of the steps of one optimizer."""

    signals: dict[str, SignalSeries] = field(
        default_factory=lambda: {name: SignalSeries(HISTORY_STEPS) for name in HISTORICAL}
    )
    loss: SpikeDetector = field(default_factory=lambda: SpikeDetector("loss", is_norm=False))
    gradient: SpikeDetector = field(default_factory=lambda: SpikeDetector("gradient", is_norm=True))
    passes: PassCounts = field(default_factory=PassCounts)
    skipped: int = 0
    learning_rate: float = math.nan


@dataclass(slots=True)
class Judge:
    """Finds the triggers of each step. Each optimizer's steps have a history of their own: a GAN
    trains two networks in turn. Used from the training thread only."""

    expressions: Sequence[TriggerExpression] = ()
    finds_spikes: bool = True
    _histories: dict[int, _History] = field(default_factory=dict)

    def judge(self, signals: Signals, parameters: Sequence[str]) -> list[Trigger]:
        """The triggers of a step, most certain first; ``parameters`` name ``signals.gradients``.

        The step enters the history only if nothing triggered; its ratio is added by `updated`.
        """
        history = self._histories.setdefault(signals.optimizer, _History())
        if is_other_rate(history.learning_rate, signals.learning_rate):
            history.loss.restart()
            history.gradient.restart()
        history.learning_rate = signals.learning_rate
        found = list(_non_finite(signals, parameters, history))
        found += [
            Trigger("expression", signals.step, text=each.text)
            for each in self.expressions
            if each.holds(signals, history.signals)
        ]
        lost = history.passes.judge(signals.step, signals.micro_batches, signals.lost_passes)
        if lost is not None:
            found.append(lost)
        if not found and not signals.is_skipped and self.finds_spikes:
            for detector, value in (
                (history.loss, signals.loss),
                (history.gradient, signals.grad_norm),
            ):
                spike = detector.judge(signals.step, value) if math.isfinite(value) else None
                if spike is not None:
                    found.append(spike)
        if not found:
            for name, series in history.signals.items():
                if name != "update_ratio":
                    series.add(float(getattr(signals, name)))
        return found

    def updated(self, signals: Signals) -> None:
        """Add the ratio of the update, which is known when the optimizer has stepped."""
        history = self._histories.get(signals.optimizer)
        if history is not None:
            history.signals["update_ratio"].add(signals.update_ratio)


def _non_finite(signals: Signals, parameters: Sequence[str], history: _History) -> list[Trigger]:
    found = []
    history.skipped = history.skipped + 1 if signals.is_skipped else 0
    if signals.non_finite_weights:
        found.append(
            Trigger("non-finite", signals.step, "weight", count=signals.non_finite_weights)
        )
    if signals.has_loss and not math.isfinite(signals.loss):
        found.append(Trigger("non-finite", signals.step, "loss", value=signals.loss))
    is_handled = signals.is_skipped and history.skipped <= MOST_SKIPPED
    if signals.non_finite_gradients and not is_handled:
        bad = np.flatnonzero(~np.isfinite(signals.gradients) & ~np.isnan(signals.gradients))
        named = parameters[int(bad[0])] if len(bad) else None
        found.append(
            Trigger(
                "non-finite",
                signals.step,
                "gradient",
                parameter=named,
                count=signals.non_finite_gradients,
            )
        )
    return found
