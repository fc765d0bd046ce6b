"""The sentence that answers first: what is wrong, where, since when, and why.

The command line prints it, the page shows it at the top, the same words in both.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sonde.core.graph import Phase, Source, phase_of, shown_name
from sonde.core.keys import TensorKey
from sonde.core.running_training import step_text
from sonde.core.text.number_text import count_text, number_text
from sonde.watch.conditions import CATALOGUE, Target, Value
from sonde.watch.explanations.derivatives import INFINITE_DERIVATIVE
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
    return _headline(_made_title(origin.type, origin.made), origin, _why(origin.made))


def _made_title(op_type: str, made: MadeValues | None) -> str:
    """``log made 54 NaN of 64 values``. The op that divides by 0 because a derivative is infinite
    is not in the user's line: the sentence is about the gradient of the op that is."""
    if made is not None and made.cause is not None and made.cause.detail == INFINITE_DERIVATIVE:
        return f"the gradient of {made.gradient_of} has {_counts(made)}"
    return f"{_plain(op_type)} made {_counts(made)}"


def _phase_text(phase: Phase, made: MadeValues | None) -> str:
    """``backward of mul``: the op in the user's line is that of the forward pass."""
    operator = "" if made is None else made.gradient_of
    return f"{phase} of {operator}" if phase == "backward" and operator else phase


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
    where = f"{f',{used}{place}' if place else ''} ({shown_name(origin.op)}{argument})"
    phase = _phase_text(origin.phase, origin.made)
    text = f"{title} in {step_text(origin.step)}, {phase}{where}{why}."
    return Headline(title, text, origin.source)


def _turned_headline(origin: Origin, turned: MadeValues) -> Headline:
    """The op that turned infinities into NaN is at fault first, then the one that made them."""
    title = _made_title(turned.type, turned)
    argument = f", {origin.argument}" if origin.argument is not None else ""
    phase = _phase_text(phase_of(turned.op), turned)
    return Headline(
        title,
        f"{title} in {step_text(origin.step)}, {phase},{place_text(turned.source)} "
        f"({shown_name(turned.op)}){_why(turned)}. The Inf come from {_plain(origin.type)}"
        f"{place_text(origin.source)} ({shown_name(origin.op)}{argument}).",
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


def unknown_origin_headline(
    target: Target,
    where: TensorKey,
    values: Sequence[Value],
    shape: Sequence[int],
    source: Source | None,
) -> Headline:
    """NaN or Inf in a tensor of which it is not known what made them."""
    counts = {value.name: int(value.actual or 0) for value in values}
    infinite = counts.get("positive_inf_count", 0) + counts.get("negative_inf_count", 0)
    nan, total = counts.get("nan_count", 0), math.prod(shape)
    found = _counts(MadeValues(where.op, "", source, nan, infinite, total, None))
    words = {"weight": "the weight ", "gradient": "the gradient of "}.get(target, "")
    title = f"{words}{shown_name(where.op).removesuffix('.grad')} has {found}"
    place = place_text(source)
    return Headline(
        title,
        f"{title} in {step_text(where.step)}{',' if place else ''}{place}. The op that made them "
        "was not observed.",
        source,
    )


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
    rest += f" ({shown_name(where.op)})" if "/" in where.op else ""
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


def spread_text(tensors: int) -> str:
    """How many others have the values of an origin; empty for none."""
    if not tensors:
        return ""
    return f" {count_text(tensors, 'other tensor')} got them from there."
