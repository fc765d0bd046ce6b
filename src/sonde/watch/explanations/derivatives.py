"""Gradients of ops at the inputs where their derivative is infinite, as that of sqrt at 0."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from sonde.core.interruption import pass_on
from sonde.watch.explanations.cause import Cause, Kind, compare_places, number, verb
from sonde.watch.explanations.op_facts import Mask, OpFacts, is_kind

INFINITE_DERIVATIVE: Final = "infinite_derivative"
_KINDS: Final[tuple[Kind, ...]] = ("inf", "nan")


@dataclass(frozen=True, slots=True)
class _Pole:
    """Where the derivative of an operator is infinite: ``at`` words for its inputs there, where
    input ``slot`` of the op of the backward pass is 0; ``derivative`` as a formula."""

    slot: int
    at: str
    derivative: str
    advice: str


_INSIDE: Final = "Add a small eps to its input, such as {}(x + 1e-12), or leave such elements out."
_BELOW_ONE: Final = "Clamp its input to less than 1 in magnitude: x.clamp(-1 + 1e-6, 1 - 1e-6)."
_ARC: Final = _Pole(0, "-1 or 1", "1 / sqrt(1 - x^2)", _BELOW_ONE)
_POLES: Final[Mapping[tuple[str, str], _Pole]] = {
    ("sqrt", "div"): _Pole(1, "0", "1 / (2 * sqrt(x))", _INSIDE.format("sqrt")),
    ("pow", "pow"): _Pole(0, "0", "p * x^(p - 1) with p = {}", _INSIDE.format("pow")),
    ("asin", "rsqrt"): _ARC,
    ("acos", "rsqrt"): _ARC,
}
"""By the operator of the forward pass, and the op of the backward pass that meets the 0."""


def explain_derivative(op: OpFacts) -> Cause | None:
    """An op of the backward pass that computes an infinite derivative."""
    pole = _POLES.get((op.gradient_of, op.kind))
    output = op.output
    source = None if pole is None else op.input(pole.slot)
    if pole is None or source is None or output is None:
        return None
    values, made, exponent = source.array, output.array, op.scalar("exponent")
    is_power = op.kind == "pow"
    if values is None or made is None or (is_power and (exponent is None or exponent >= 0)):
        return None
    zeros = values == 0
    try:
        spread: Mask = np.broadcast_to(zeros, made.shape)
    except ValueError as error:
        pass_on(error)
        return None
    places = next(
        filter(None, (compare_places(spread, is_kind(made, kind), kind) for kind in _KINDS)),
        None,
    )
    if places is None:
        return None
    count = int(zeros.sum())
    derivative = pole.derivative.format(number((exponent or 0.0) + 1))
    return Cause(
        INFINITE_DERIVATIVE,
        f"{_inputs_text(count, source.size, op.gradient_of)} {verb(count)} {pole.at}, where its "
        f"derivative, {derivative}, is infinite" + ("" if source.size == 1 else places.text),
        {
            "inputs": source.size,
            "inputs_at_fault": count,
            "explained": places.explained,
            "non_finite": places.bad,
        },
        places.status,
        pole.advice,
    )


def _inputs_text(count: int, total: int, operator: str) -> str:
    if total == 1:
        return f"the input of {operator}"
    return f"{'all' if count == total else f'{count} of the'} {total} inputs of {operator}"
