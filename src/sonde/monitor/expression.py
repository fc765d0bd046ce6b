"""Triggers written by the user: ``grad_norm > 10 * median(grad_norm, 100)``.

`sonde.watch.expression_language` has the grammar and the three-valued logic; here are the names:
the signals of the step, those of the step before (``prev.loss``), ``step``, and functions of the
steps before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from difflib import get_close_matches

from sonde.core.errors import UsageError
from sonde.monitor.history import AGGREGATES, SignalSeries
from sonde.monitor.signals import HISTORICAL, Signals
from sonde.watch.expression_language import EvaluationContext, ExpressionError, Predicate, parse


@dataclass(frozen=True, slots=True)
class TriggerExpression:
    """A condition on signals; ``predicate`` is the compiled ``text``."""

    text: str
    predicate: Predicate = field(compare=False, repr=False)

    def holds(self, signals: Signals, history: dict[str, SignalSeries]) -> bool:
        """Whether the condition is true; not if it is undecided, because a signal is missing or
        there were too few steps."""

        def value_of(name: str) -> float | None:
            if name == "step":
                return float(signals.step)
            plain = name.removeprefix("prev.")
            if plain != name or plain == "update_ratio":
                # The ratio of this step's update is not known before the update.
                found = history[plain].newest
                return None if math.isnan(found) else found
            return float(getattr(signals, plain))

        def aggregate(function: str, name: str, count: int) -> float | None:
            values = history[name].last(count)
            return None if len(values) < count else AGGREGATES[function](values)

        return self.predicate.truth(EvaluationContext(value_of, aggregate=aggregate)) is True


def parse_trigger(text: str) -> TriggerExpression:
    """The condition ``text``; UsageError names the part that is not allowed, and its column."""

    def check(name: str) -> str | None:
        plain = name.removeprefix("prev.")
        if name == "step" or plain in HISTORICAL:
            return None
        near = get_close_matches(plain, (*HISTORICAL, *AGGREGATES), n=1)
        known = ", ".join((*HISTORICAL, "step"))
        hint = f"did you mean {near[0]!r}?" if near else f"the signals are {known}"
        return f"{name!r} is not a signal; {hint}"

    try:
        predicate = parse(text, check, "signal", tuple(AGGREGATES))
    except ExpressionError as error:
        shown = text if len(text) <= 200 else f"{text[:40]}..."
        raise UsageError(
            f"the trigger {shown!r} cannot be used: {error}", slug="trigger-expression"
        ) from None
    return TriggerExpression(text.strip(), predicate)
