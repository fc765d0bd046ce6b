"""The sentence that answers first: what is wrong, where, since when, and why.

The command line prints it, the page shows it at the top, the same words in both.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sonde.core.graph import Source
from sonde.core.keys import TensorKey
from sonde.core.running_training import step_text
from sonde.core.text.number_text import count_text, number_text
from sonde.watch.conditions import CATALOGUE, Value
from sonde.watch.explanations.made_values import MadeValues
from sonde.watch.hit_text import is_collective
from sonde.watch.origins import Origin

_LEAVES: Final = {"Parameter": "weight", "Input": "input", "Constant": "constant"}


@dataclass(frozen=True, slots=True)
class Headline:
    """``title`` says what, in a few words; ``text`` is the whole sentence and begins with it;
    ``source`` is the line that it names."""

    title: str
    text: str
    source: Source | None = None

    def __str__(self) -> str:
        return self.text


def place_text(source: Source | None) -> str:
    """`` at train.py:12 `y = x.log()` ``, without the trailing space; empty without a line."""
    if source is None:
        return ""
    inside = f" ({source.library_text})" if source.library is not None else ""
    code = f" `{source.code.strip()}`" if source.code.strip() else ""
    return f" at {os.path.basename(source.file)}:{source.line}{inside}{code}"


def origin_headline(origin: Origin) -> Headline:
    """What made NaN or Inf, when, where and why."""
    if origin.turned is not None and origin.made is None:
        return _turned_headline(origin, origin.turned)
    if origin.kind == "outside":
        return _headline("code that is not an op wrote NaN or Inf into memory", origin)
    if origin.kind == "leaf":
        what = _LEAVES.get(origin.type, "input")
        name = origin.op.rpartition("/")[2]
        return _headline(f"the {what} {name} contains {_counts(origin.made)}", origin)
    if is_collective(origin.op):
        title = f"{_plain(origin.type)} returned {_counts(origin.made)}"
        return _headline(title, origin, _received(origin.made))
    title = f"{_plain(origin.type)} made {_counts(origin.made)}"
    return _headline(title, origin, _why(origin.made))


def _received(made: MadeValues | None) -> str:
    """Why a collective whose inputs on this rank are finite returns other values."""
    is_nan = made is not None and made.nan > 0
    return ": the values of this rank are finite, " + (
        "another rank sent them" if is_nan else "another rank sent them, or their sum is too large"
    )


def _headline(title: str, origin: Origin, why: str = "") -> Headline:
    used = "" if origin.kind == "op" else " first used"
    argument = f", {origin.argument}" if origin.argument is not None else ""
    place = place_text(origin.source)
    where = f"{f',{used}{place}' if place else ''} ({origin.op}{argument})"
    text = f"{title} in {step_text(origin.step)}, {origin.phase}{where}{why}."
    return Headline(title, text, origin.source)


def _turned_headline(origin: Origin, turned: MadeValues) -> Headline:
    """The op that turned infinities into NaN is at fault first, then the one that made them."""
    title = f"{_plain(turned.type)} made {_counts(turned)}"
    argument = f", {origin.argument}" if origin.argument is not None else ""
    return Headline(
        title,
        f"{title} in {step_text(origin.step)}, {origin.phase},{place_text(turned.source)} "
        f"({turned.op}){_why(turned)}. The Inf come from {_plain(origin.type)}"
        f"{place_text(origin.source)} ({origin.op}{argument}).",
        turned.source,
    )


def _why(made: MadeValues | None) -> str:
    return "" if made is None or made.cause is None else f": {made.cause.message}"


def _counts(made: MadeValues | None) -> str:
    """``54 NaN of 64 values``."""
    if made is None or not made.nan + made.inf:
        return "NaN or Inf"
    if made.total == 1:
        return "NaN" if made.nan else "Inf"
    both = [f"{count:,} {name}" for count, name in ((made.nan, "NaN"), (made.inf, "Inf")) if count]
    return f"{' and '.join(both)} of {made.total:,} values"


def threshold_headline(
    name: str, rule: str, where: TensorKey, values: Sequence[Value], source: Source | None
) -> Headline:
    """A hit of a condition about ordinary numbers: the number found, and the limit. ``name`` is
    that of the watchpoint, if it has one."""
    known = CATALOGUE.get(rule)
    condition = rule if known is None else f"{known.title[:1].lower()}{known.title[1:]}"
    title = f"{where.op.rpartition('/')[2]}: {name or condition}"
    place = place_text(source)
    found = "; ".join(filter(None, map(_value_text, values)))
    rest = f" in {step_text(where.step)}{',' if place else ''}{place}"
    rest += f" ({where.op})" if "/" in where.op else ""
    what = "" if name in ("", condition) else f" ({condition})"
    return Headline(title, f"{title}{rest}{': ' if found else ''}{found}{what}.", source)


_RELATIONS: Final = {"_gt": "above", "_lt": "below", "_ge": "at least", "_le": "at most"}


def _value_text(value: Value) -> str:
    """``max is 4.1, above 3``."""
    if value.actual is None:
        return ""
    number = number_text(float(value.actual), 6)
    relation = _RELATIONS.get(value.name[-3:])
    name = (value.name[:-3] if relation else value.name).replace("_", " ")
    if value.preset is None or relation is None:
        return f"{name} is {number}"
    return f"{name} is {number}, {relation} {number_text(float(value.preset), 6)}"


def _plain(op_type: str) -> str:
    return op_type.strip("_") or op_type


def spread_text(ops: int) -> str:
    """How many others have the values of an origin; empty for none."""
    if not ops:
        return ""
    return f" {count_text(ops, 'other op')} got them from there."
