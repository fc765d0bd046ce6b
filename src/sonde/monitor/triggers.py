"""Why a step is kept: a trigger, as fields; its sentence is made last."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from sonde.core.text.number_text import count_text, number_text

TriggerKind = Literal[
    "non-finite",
    "spike",
    "lost-gradients",
    "nondeterministic",
    "expression",
    "exception",
    "call",
    "signal",
]
Quantity = Literal["loss", "gradient", "weight", ""]


@dataclass(frozen=True, slots=True)
class Trigger:
    """Why a step is kept.

    ``quantity`` is what was judged, of ``parameter`` if it is that of one parameter. A spike has
    the ``threshold`` that ``value`` exceeds, the ``median`` and the largest value (``highest``) of
    the ``history_steps`` steps before, and ``score``, how many robust standard deviations ``value``
    lies above the median. Lost gradients have the number of backward passes that count (``value``)
    and how many usually do (``median``). ``text`` is the expression, the exception, or the reason
    the program gave.
    """

    kind: TriggerKind
    step: int
    quantity: Quantity = ""
    parameter: str | None = None
    value: float | None = None
    count: int = 0
    threshold: float | None = None
    median: float | None = None
    highest: float | None = None
    score: float | None = None
    history_steps: int = 0
    text: str = ""

    @property
    def family(self) -> tuple[str, str, str]:
        """Equal for triggers in consecutive steps that have the same cause."""
        return self.kind, self.quantity, self.text if self.kind == "expression" else ""

    @property
    def is_asked_for(self) -> bool:
        """Whether the user wants to have the step: it may be in order."""
        return self.kind in ("call", "signal")


_NOUNS = {"loss": "the loss", "gradient": "the gradient", "weight": "the weights"}


def trigger_text(trigger: Trigger) -> str:
    """What happened, for the user: ``the loss is nan``."""
    what = _NOUNS.get(trigger.quantity, trigger.quantity)
    if trigger.parameter:
        what = f"{what} of {trigger.parameter}"
    match trigger.kind:
        case "non-finite":
            return _non_finite_text(trigger, what)
        case "spike":
            norm = "" if trigger.quantity == "loss" else "norm of "
            return (
                f"the {norm}{trigger.quantity} is {number_text(trigger.value)}, in the "
                f"{trigger.history_steps} steps before at most {number_text(trigger.highest)} "
                f"(median {number_text(trigger.median)})"
            )
        case "lost-gradients":
            used = count_text(int(trigger.value or 0), "accumulated gradient")
            return (
                f"the update uses {used}, usually {number_text(trigger.median)}: the program "
                "cleared gradients between backward passes"
            )
        case "nondeterministic":
            return "executed a second time the step computes something else"
        case "expression":
            return f"{trigger.text} holds"
        case "exception":
            return f"the program raised {trigger.text}"
        case "signal":
            return "the process received SIGUSR2"
    return f"the program asked for it: {trigger.text}" if trigger.text else "the program asked"


def _non_finite_text(trigger: Trigger, what: str) -> str:
    if trigger.quantity == "loss":
        value = trigger.value
        return f"the loss is {'nan' if value is None or math.isnan(value) else value}"
    if trigger.quantity == "weight":
        values = "value is" if trigger.count == 1 else "values are"
        return f"{trigger.count:,} {values} not finite in the weights, before the update"
    if trigger.count:
        values = "value" if trigger.count == 1 else "values"
        return f"{what} has {trigger.count:,} non-finite {values}"
    return f"the norm of {what} is not finite"
