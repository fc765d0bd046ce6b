"""Judges a step that was executed again as the guard judged it: does its trigger still fire?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from sonde.core.errors import SondeError
from sonde.core.text.number_text import number_text
from sonde.monitor.expression import parse_trigger
from sonde.monitor.history import SignalSeries
from sonde.monitor.reading import read_signals
from sonde.monitor.signals import HISTORICAL, Signals
from sonde.monitor.spikes import HISTORY_STEPS
from sonde.replay.manifest import Manifest, StoredTrigger


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a step computed: the loss (None if it is not known), the norm of all gradients, how many
    values of gradients and of weights are not finite, and the exception that ended it.

    ``bad_parameters`` have gradients that are not finite. ``is_deterministic``: whether a second
    execution computed the same; None if there was none. ``is_of_other_rank``: gradients that
    ranks average are not finite, and those of this rank are. ``is_spoiled_outside``: the step is
    not finite, and a tensor of the captured step that the program computes itself is not either.
    """

    loss: float | None
    grad_norm: float
    non_finite_gradients: int
    non_finite_weights: int = 0
    bad_parameters: tuple[str, ...] = ()
    error: str | None = None
    is_deterministic: bool | None = None
    is_of_other_rank: bool = False
    is_spoiled_outside: bool = False

    @property
    def is_finite(self) -> bool:
        is_loss_finite = self.loss is None or math.isfinite(self.loss)
        return is_loss_finite and not self.non_finite_gradients and not self.non_finite_weights

    def text(self) -> str:
        """``loss 2.31, norm of the gradients 0.7``."""
        if self.error is not None:
            return f"it raises {self.error}"
        parts = [] if self.loss is None else [f"loss {number_text(self.loss)}"]
        parts.append(f"norm of the gradients {number_text(self.grad_norm)}")
        if self.non_finite_gradients:
            parts.append(f"{self.non_finite_gradients:,} values of gradients are not finite")
        if self.non_finite_weights:
            parts.append(f"{self.non_finite_weights:,} values of weights are not finite")
        return ", ".join(parts)


def still_fires(manifest: Manifest, outcome: Outcome, directory: Path) -> bool | None:
    """Whether the trigger of a captured step fires for ``outcome``; None if it cannot be judged.

    ``directory`` is that of the step, beside which the signals of earlier steps are. A step that
    was kept on request is judged by whether its loss and its gradients are finite.
    """
    trigger = manifest.trigger
    if trigger is not None and trigger.kind == "exception":
        return outcome.error is not None
    if outcome.error is not None:
        return None
    if outcome.is_of_other_rank or outcome.is_spoiled_outside:
        return None
    if trigger is None or trigger.kind in ("call", "signal"):
        return not outcome.is_finite
    if trigger.kind == "non-finite":
        return _is_non_finite(trigger, outcome)
    if trigger.kind == "spike":
        return _is_spike(trigger, outcome)
    if trigger.kind == "nondeterministic":
        return None if outcome.is_deterministic is None else not outcome.is_deterministic
    if trigger.kind == "lost-gradients":
        return None
    return _holds(trigger, manifest, outcome, directory)


def unjudged_reason(manifest: Manifest, outcome: Outcome) -> str:
    """Why `still_fires` is None, for the user."""
    kind = "" if manifest.trigger is None else manifest.trigger.kind
    if outcome.error is not None:
        return outcome.error
    if outcome.is_of_other_rank:
        return (
            "what this rank computes is finite, NaN and Inf came from another rank; take the step "
            "that the other rank kept"
        )
    if outcome.is_spoiled_outside:
        return (
            "its loss was given a tensor with NaN or Inf that was computed before the network was "
            "called, and that is not computed again from the batch of the step"
        )
    if kind == "lost-gradients":
        return "which gradients the program clears shows in a training of several steps only"
    if kind == "nondeterministic":
        return "it takes several executions; 'sonde replay --times 3' or verify without a program"
    return "its history or its loss is not known"


def _is_non_finite(trigger: StoredTrigger, outcome: Outcome) -> bool | None:
    """A step whose loss is finite now, but not its gradients, is not in order either."""
    if trigger.quantity == "weight":
        return outcome.non_finite_weights > 0
    if trigger.quantity == "loss" and outcome.loss is None and not outcome.non_finite_gradients:
        return None
    return not outcome.is_finite


def _is_spike(trigger: StoredTrigger, outcome: Outcome) -> bool | None:
    if not outcome.is_finite:
        return True
    value = outcome.loss if trigger.quantity == "loss" else outcome.grad_norm
    threshold = trigger.threshold
    if value is None or not isinstance(threshold, float | int):
        return None
    return value >= threshold


def _holds(
    trigger: StoredTrigger, manifest: Manifest, outcome: Outcome, directory: Path
) -> bool | None:
    """Whether the expression holds, with the history that the ring of signals has."""
    text = trigger.facts.get("reason", trigger.text)
    signals = Signals(manifest.step)
    for name in HISTORICAL:
        value = manifest.signals.get(name)
        if isinstance(value, float | int):
            setattr(signals, name, value)
    signals.loss = math.nan if outcome.loss is None else outcome.loss
    signals.grad_norm = outcome.grad_norm
    signals.non_finite_gradients = outcome.non_finite_gradients
    history = {name: SignalSeries(HISTORY_STEPS) for name in HISTORICAL}
    try:
        expression = parse_trigger(str(text))
        table = read_signals(directory.parent, manifest.rank)
        for row, step in enumerate(table["step"]):
            if step < manifest.step:
                for name, series in history.items():
                    series.add(float(table[name][row]))
    except (SondeError, KeyError, OSError):
        return None
    return expression.holds(signals, history)
