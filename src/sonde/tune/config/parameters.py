"""Reads the ``parameters`` of a configuration and the ``space`` of `sonde.tune.search`."""

from __future__ import annotations

import math
import re
from typing import Any, cast

from sonde.core.settings import Problems, nearest
from sonde.tune.config.section import TuneSection, is_finite_number, is_number, kind
from sonde.tune.config.space import (
    SYSTEM_DEFINED,
    Kind,
    ParameterCondition,
    SearchParameter,
    Source,
    Space,
    ordered,
)
from sonde.tune.config.yaml_lines import LocatedValue

_NAME = re.compile(r"[A-Za-z0-9_]+")


def read_space(node: LocatedValue | None, where: str, problems: Problems) -> Space:
    """The space that a mapping of parameters describes; mistakes are added to ``problems``."""
    if node is None:
        return Space(())
    section = TuneSection(node, where, problems)
    found = [_parameter(section, name) for name in section.names]
    parameters = [one for one in found if one is not None]
    if not section.names and isinstance(node.value, dict):
        problems.add(f"{where} is empty; name at least one", slug="tune-value", line=node.line)
    _check_conditions(section, parameters)
    in_order = ordered(parameters)
    if in_order is None:
        problems.add(
            f"the 'when' of {where} go in a circle; break it", slug="tune-space", line=node.line
        )
    return Space(in_order or ())


def _parameter(section: TuneSection, name: str) -> SearchParameter | None:
    node = section.node(name)
    if not _NAME.fullmatch(name):
        section.refuse(name, "is not a name: letters, digits and _ only", slug="tune-space")
    if node is None:
        section.refuse(name, "is empty; give it 'bounds' or 'choice'", slug="tune-space")
        return None
    own = TuneSection(node, section.name(name), section.problems)
    source = _source(own, name)
    wanted = SYSTEM_DEFINED.get(name) if source == "system_defined" else None
    bounds, choice = own.node("bounds"), own.node("choice")
    common: dict[str, Any] = {
        "source": source,
        "conditions": _conditions(own),
        "argument": own.optional_text("argument"),
        "environment": own.optional_text("environment"),
    }
    values: dict[str, Any] | None = None
    if (bounds is None) == (choice is None):
        said = "both 'bounds' and 'choice'" if bounds else "neither 'bounds' nor 'choice'"
        section.refuse(name, f"has {said}; it takes one of them", slug="tune-space")
        for key in ("type", "decimal", "step", "log", "points"):
            own.node(key)
    elif choice is not None:
        own.node("type")  # MindOptimizer ignores the type of a choice
        values = _choices(own, choice, name, wanted)
    else:
        values = _range(own, cast(LocatedValue, bounds), name, wanted)
    own.finish(hints=_hints(choice is not None))
    return None if values is None else SearchParameter(name, **values, **common)


def _hints(is_choice: bool) -> dict[str, str]:
    hints = {"choices": "; did you mean 'choice'?", "range": "; did you mean 'bounds'?"}
    if is_choice:
        reason = " of a choice: it goes with 'bounds'"
        hints |= dict.fromkeys(("decimal", "step", "log", "points"), reason)
    return hints


def _source(own: TuneSection, name: str) -> Source:
    default = "system_defined" if name in SYSTEM_DEFINED else "user_defined"
    source = own.word("source", ("system_defined", "user_defined"), default)
    if source == "system_defined" and name not in SYSTEM_DEFINED:
        known = ", ".join(SYSTEM_DEFINED)
        own.refuse(
            "source", f"is system_defined, which only {known} are{nearest(name, SYSTEM_DEFINED)}"
        )
        return "user_defined"
    return cast(Source, source)


def _choices(
    own: TuneSection, node: LocatedValue, name: str, wanted: Kind | None
) -> dict[str, Any] | None:
    if not isinstance(node.value, list) or not node.value:
        own.refuse("choice", "is not a list of at least one value such as [32, 64]")
        return None
    values: list[Any] = []
    for each in node.value:
        is_infinite = is_number(each.value) and not is_finite_number(each.value)
        if isinstance(each.value, dict | list) or is_infinite:
            own.refuse("choice", f"has {kind(each.value)}; use numbers, texts, true, false")
        elif any(each.value == one and type(each.value) is type(one) for one in values):
            own.refuse("choice", f"has {each.value!r} twice")
        elif wanted is not None and not _fits(each.value, wanted):
            word = "whole numbers above 0" if wanted == "int" else "numbers above 0"
            own.refuse("choice", f"has {each.value!r}, but {name} takes {word}")
        else:
            values.append(each.value)
    if len(values) < len(node.value):
        return None
    return {"kind": "choice", "choices": tuple(values)}


def _fits(value: Any, wanted: Kind) -> bool:
    return is_number(value) and value > 0 and (wanted == "float" or isinstance(value, int))


def _range(
    own: TuneSection, bounds: LocatedValue, name: str, wanted: Kind | None
) -> dict[str, Any] | None:
    found = _kind(own, wanted)
    log = own.flag("log", False)
    step = own.number("step", above=0)
    decimal = own.whole("decimal", None)
    points = own.whole("points", None, minimum=1)
    limits = _limits(own, bounds)
    if found is None or limits is None:
        return None
    low, high = limits
    if log and low <= 0:
        own.refuse("log", f"needs bounds above 0, and {low:g} is not", slug="tune-space")
    if wanted is not None and low <= 0:
        own.refuse("bounds", f"must be above 0 for {name}", slug="tune-space")
    if log and (step is not None or decimal is not None):
        key = "step" if step is not None else "decimal"
        own.refuse(key, "and log exclude each other: steps are even, a log scale is not")
        return None
    if step is not None and decimal is not None:
        own.refuse("decimal", "and step exclude each other; keep one of them")
        return None
    least: float | None
    if found == "int":
        least = _least_whole(own, low, high, step)
    elif decimal is None:
        least, high = float(low), float(high)
    else:
        step = 10.0**-decimal
        least = _least_decimal(own, low, high, decimal)
    if least is None:
        return None
    return {"kind": found, "low": least, "high": high, "step": step, "log": log, "points": points}


def _kind(own: TuneSection, wanted: Kind | None) -> Kind | None:
    if "type" not in own and wanted is None:
        own.refuse("type", "is missing: 'int' or 'float'", slug="tune-space")
        return None
    given = own.word("type", ("int", "float"), wanted or "float")
    if wanted is not None and given != wanted:
        own.refuse("type", f"is {given}, but {own.where.rpartition('.')[2]} is {wanted}")
    return cast(Kind, given)


def _limits(own: TuneSection, bounds: LocatedValue) -> tuple[float, float] | None:
    values = bounds.plain()
    is_pair = isinstance(values, list) and len(values) == 2
    if not is_pair or not all(is_finite_number(one) for one in values):
        own.refuse("bounds", "is not a list of two numbers such as [0.001, 0.1]")
        return None
    low, high = values
    if low >= high:
        own.refuse("bounds", f"[{low:g}, {high:g}) is empty: the second must be greater")
        return None
    return low, high


def _least_whole(own: TuneSection, low: float, high: float, step: float | None) -> int | None:
    """The smallest whole number within the bounds."""
    if step is not None and step != int(step):
        own.refuse("step", f"is {step:g}, but the type is int")
        return None
    if "decimal" in own:
        own.refuse("decimal", "is for type float")
        return None
    least = math.ceil(low)
    if least >= high:
        own.refuse("bounds", f"[{low:g}, {high:g}) has no whole number in it")
        return None
    return least


def _least_decimal(own: TuneSection, low: float, high: float, decimal: int) -> float | None:
    """The smallest number within the bounds that has so many decimals."""
    step = 10.0**-decimal
    least = round(math.ceil(round(low / step, 9)) * step, decimal)
    if least >= high:
        own.refuse("decimal", f"is {decimal}: no such number lies in [{low:g}, {high:g})")
        return None
    return least


def _conditions(own: TuneSection) -> tuple[ParameterCondition, ...]:
    node = own.node("when")
    if node is None:
        return ()
    if not isinstance(node.value, dict) or not node.value:
        own.refuse("when", "is not such as {optimizer: sgd} or {layers: [2, 3]}")
        return ()
    wanted = {name: each.plain() for name, each in node.value.items()}
    return tuple(
        ParameterCondition(name, tuple(values) if isinstance(values, list) else (values,))
        for name, values in wanted.items()
    )


def _check_conditions(section: TuneSection, parameters: list[SearchParameter]) -> None:
    """Note conditions on unknown parameters, and on values that a parameter never has."""
    by_name = {one.name: one for one in parameters}
    for parameter in parameters:
        for condition in parameter.conditions:
            other = by_name.get(condition.name)
            if other is None:
                if condition.name not in section.names:
                    section.refuse(
                        parameter.name,
                        f"exists when {condition.name!r} has a value, which is no parameter"
                        f"{nearest(condition.name, section.names)}",
                        slug="tune-space",
                    )
                continue
            impossible = [one for one in condition.values if not _possible(other, one)]
            if impossible or not condition.values:
                said = repr(impossible[0]) if impossible else "none of its values"
                section.refuse(
                    parameter.name,
                    f"exists when {condition.name} is {said}, which it never is",
                    slug="tune-space",
                )


def _possible(parameter: SearchParameter, value: Any) -> bool:
    if parameter.kind == "choice":
        return any(value == one and type(value) is type(one) for one in parameter.choices)
    return (
        is_number(value)
        and (parameter.kind == "float" or isinstance(value, int))
        and parameter.low <= value <= parameter.largest
    )
