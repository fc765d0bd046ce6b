"""Watch conditions, one file per family.

``docs/conditions.md`` lists them with their formulas.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from sonde.core.errors import UsageError
from sonde.watch.conditions import change, overflow, span, threshold
from sonde.watch.conditions.catalogue import REPORTING, Kind, checked
from sonde.watch.conditions.contract import (
    Condition,
    Evidence,
    Judgement,
    Needs,
    Reason,
    ReasonCode,
    Target,
    Value,
    join_all,
    undecided,
)
from sonde.watch.conditions.evidence import Memory, PreviousValue, measure, memory_of
from sonde.watch.conditions.expression import NAMES as EXPRESSION_NAMES
from sonde.watch.conditions.expression import parse_expression
from sonde.watch.conditions.presets import DEFAULT_PRESETS, NOTHING, PRESETS, Preset, watchpoints_of
from sonde.watch.conditions.recommended import RECOMMENDED, Recommended

__all__ = [
    "CATALOGUE",
    "DEFAULT_PRESETS",
    "EXPRESSION_NAMES",
    "NOTHING",
    "PRESETS",
    "RECOMMENDED",
    "Condition",
    "Evidence",
    "Judgement",
    "Kind",
    "Memory",
    "Needs",
    "Preset",
    "PreviousValue",
    "Reason",
    "ReasonCode",
    "Recommended",
    "Target",
    "Value",
    "join_all",
    "measure",
    "memory_of",
    "parse_condition",
    "undecided",
    "watchpoints_of",
]

CATALOGUE: Mapping[str, Kind] = {
    kind.id: kind for kind in (*overflow.KINDS, *threshold.KINDS, *span.KINDS, *change.KINDS)
}
"""Every condition except the expression, by its id."""


def parse_condition(
    id: str, parameters: Mapping[str, float] | None = None, expression: str = ""
) -> Condition:
    """The condition called ``id``, or "expression"; UsageError if it is not valid."""
    if id == "expression":
        if parameters:
            raise UsageError(
                "an expression takes no parameters; write the numbers into it",
                slug="condition-parameter",
            )
        return parse_expression(expression)
    kind = CATALOGUE.get(id)
    if kind is None:
        near = get_close_matches(id, [*CATALOGUE, "expression"], n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(CATALOGUE)}"
        raise UsageError(f"there is no condition {id!r}; {hint}", slug="condition-unknown")
    if expression:
        raise UsageError(
            f"{id} takes no expression; use the condition 'expression' for that",
            slug="condition-parameter",
        )
    found = checked(kind, parameters or {})
    reporting = {each.name for each in REPORTING}
    return kind.make(kind, {name: value for name, value in found.items() if name not in reporting})
