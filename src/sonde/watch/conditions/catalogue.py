"""The entries of the catalogue of conditions: texts, parameters, and checks of parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from math import inf, isfinite, isnan

from sonde.core.errors import UsageError
from sonde.watch.conditions.contract import Condition, Target


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a condition.

    A ``check`` parameter is a number that the condition compares with; at least one must be set.
    The others have a default, or must be set together with a check that needs them. ``lowest`` and
    ``highest`` are allowed values, unless infinite; ``above``: ``lowest`` itself is not allowed.
    """

    name: str
    description: str
    check: bool = True
    default: float | None = None
    lowest: float = -inf
    highest: float = inf
    above: bool = False


@dataclass(frozen=True, slots=True)
class Kind:
    """One entry of the catalogue; ``make`` gets it, and the parameters."""

    id: str
    title: str
    abbreviation: str
    target: Target
    formula: str
    description: str
    advice: str
    parameters: tuple[Parameter, ...]
    make: Callable[[Kind, Mapping[str, float]], Condition]


REPORTING = (
    Parameter(
        "steps_in_a_row",
        "report a tensor from so many steps in a row on",
        check=False,
        default=1.0,
        lowest=1.0,
    ),
    Parameter(
        "from_start",
        "1: only rows of steps that begin with the watchpoint itself, not later",
        check=False,
        default=0.0,
        lowest=0.0,
        highest=1.0,
    ),
    Parameter(
        "floats_only",
        "1: leave out integers and truth values",
        check=False,
        default=0.0,
        lowest=0.0,
        highest=1.0,
    ),
)
"""Parameters of conditions that a healthy training may meet for a moment. ``Watch`` reads them; the
conditions themselves judge one tensor of one step."""


def checked(kind: Kind, given: Mapping[str, float]) -> dict[str, float]:
    """The given parameters and the defaults of a condition; UsageError if one is not valid."""
    known = {parameter.name: parameter for parameter in kind.parameters}
    for name, value in given.items():
        parameter = known.get(name)
        if parameter is None:
            raise _no_parameter(kind, name)
        _check_range(kind, parameter, value)
    checks = [parameter for parameter in kind.parameters if parameter.check]
    has_check = any(parameter.name in given for parameter in checks)
    found = {
        parameter.name: parameter.default
        for parameter in kind.parameters
        if parameter.default is not None and (not parameter.check or not has_check)
    }
    found.update({name: float(value) for name, value in given.items()})
    if checks and not any(parameter.name in found for parameter in checks):
        names = ", ".join(parameter.name for parameter in checks)
        raise UsageError(f"{kind.id} needs at least one of {names}", slug="condition-parameter")
    return found


def _no_parameter(kind: Kind, name: str) -> UsageError:
    known = [parameter.name for parameter in kind.parameters]
    if not known:
        return UsageError(
            f"{kind.id} takes no parameters, so {name!r} is not allowed",
            slug="condition-parameter",
        )
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(known)}"
    return UsageError(f"{kind.id} has no parameter {name!r}; {hint}", slug="condition-parameter")


def _check_range(kind: Kind, parameter: Parameter, value: float) -> None:
    low, high = parameter.lowest, parameter.highest
    good = not isnan(value) and isfinite(value) and low <= value <= high
    if good and not (parameter.above and value <= low):
        return
    if isfinite(low) and isfinite(high):
        wanted = f"from {low:g} to {high:g}"
    elif isfinite(low):
        wanted = f"above {low:g}" if parameter.above else f"of at least {low:g}"
    else:
        wanted = "that is finite"
    raise UsageError(
        f"{kind.id}: {parameter.name} is {value:g}; it must be a number {wanted}",
        slug="condition-parameter",
    )
