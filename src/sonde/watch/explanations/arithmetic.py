"""Sums, products, quotients and matrix products: zeros, and infinities that cancel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from sonde.core.interruption import pass_on
from sonde.watch.explanations.cause import Cause, Kind, compare_places, number, share, verb
from sonde.watch.explanations.op_facts import Array, Mask, OpFacts, TensorFacts, is_kind
from sonde.watch.explanations.value_range import LARGEST, explain_range

_DIVISOR_ADVICE: Final = "Add a small eps to the divisor, or find out why it is 0."
_PAIRS: Final[dict[str, tuple[tuple[Kind, str, str], ...]]] = {
    "add": (("nan", "inf_minus_inf", "Inf is added to -Inf"),),
    "sub": (("nan", "inf_minus_inf", "Inf is subtracted from Inf"),),
    "mul": (("nan", "zero_times_inf", "0 is multiplied by Inf"),),
}


def explain_sum_or_product(op: OpFacts) -> Cause | None:
    """``add``, ``sub`` or ``mul``: infinite inputs that give NaN, else a result out of range."""
    for kind, detail, words in _PAIRS.get(op.kind, ()):
        found = _explain_pair(op, kind, detail, words)
        if found is not None:
            return found
    return explain_range(op)


def _explain_pair(op: OpFacts, kind: Kind, detail: str, words: str) -> Cause | None:
    output, pair = op.output, _operands(op)
    if output is None or pair is None or output.array is None:
        return None
    first, second = pair
    masks: dict[str, Callable[[], Mask]] = {
        "add": lambda: np.isinf(first) & np.isinf(second) & (np.sign(first) != np.sign(second)),
        "sub": lambda: np.isinf(first) & np.isinf(second) & (np.sign(first) == np.sign(second)),
        "mul": lambda: ((first == 0) & np.isinf(second)) | (np.isinf(first) & (second == 0)),
    }
    where = masks[op.kind]()
    places = compare_places(_spread(where, output.array), is_kind(output.array, kind), kind)
    if places is None:
        return None
    count = int(where.sum())
    return Cause(
        detail,
        f"{words} in {count} {'place' if count == 1 else 'places'}{places.text}",
        {"places": count, "explained": places.explained, "non_finite": places.bad},
        places.status,
    )


def _operands(op: OpFacts) -> tuple[Array, Array] | None:
    """The two operands, broadcast against each other; the second may be a number."""
    arrays = [each.array for each in op.inputs[:2]]
    if len(arrays) == 1:
        scalar = op.scalar("other")
        arrays.append(None if scalar is None else np.asarray(scalar))
    if len(arrays) < 2 or arrays[0] is None or arrays[1] is None:
        return None
    try:
        first, second = np.broadcast_arrays(arrays[0], arrays[1])
    except ValueError as error:
        pass_on(error)
        return None
    return first, second


def _spread(where: Mask, made: Array) -> Mask:
    try:
        return np.broadcast_to(where, made.shape)
    except ValueError as error:
        pass_on(error)
        return where


def explain_quotient(op: OpFacts) -> Cause | None:
    """``div``: zeros among the divisors, 0 / 0, Inf / Inf, or a quotient out of range."""
    output = op.output
    if op.kind == "addcdiv":  # x + value * a / b
        op = replace(op, inputs=op.inputs[1:])
    divisor = op.inputs[1] if len(op.inputs) > 1 else None
    if output is None:
        return None
    if divisor is None:
        if op.scalar("other") == 0:
            return Cause("zero_divisor", "the divisor is 0", {"divisor": 0}, advice=_DIVISOR_ADVICE)
        return None if op.scalar("other") is None else explain_range(op)
    pair = _operands(op)
    if pair is None or output.array is None:
        return _zeros_counted(divisor, output)
    numerator, denominator = pair
    for kind, detail, words, where in (
        ("nan", "zero_by_zero", "0 is divided by 0", (numerator == 0) & (denominator == 0)),
        ("nan", "inf_by_inf", "Inf is divided by Inf", np.isinf(numerator) & np.isinf(denominator)),
        ("inf", "zero_divisor", "", (denominator == 0) & (numerator != 0)),
    ):
        places = compare_places(where, is_kind(output.array, kind), kind)
        if places is not None:
            return _quotient_cause(detail, words, where, places.text, divisor, places.status)
    return _too_small_divisor(output, divisor) or explain_range(op)


def _quotient_cause(
    detail: str, words: str, where: Mask, places: str, divisor: TensorFacts, status: object
) -> Cause:
    zeros = int(divisor.number("zero_count") or 0)
    count = int(where.sum())
    evidence: dict[str, object] = {"divisors": divisor.size, "divisors_zero": zeros}
    if not words:
        text = "the divisor is 0"
        if divisor.size > 1:
            text = f"{share(zeros, divisor, 'its {} divisors')} {verb(zeros)} 0{places}"
    else:
        text = f"{words} in {count} {'place' if count == 1 else 'places'}{places}"
        evidence["places"] = count
    return Cause(
        detail,
        text,
        evidence,
        "established" if status == "established" else "supported",
        "" if detail == "inf_by_inf" else _DIVISOR_ADVICE,
    )


def _zeros_counted(divisor: TensorFacts, output: TensorFacts) -> Cause | None:
    zeros = divisor.number("zero_count")
    if not zeros:
        return None
    text = f"{share(int(zeros), divisor, 'its {} divisors')} {verb(int(zeros))} 0"
    evidence: dict[str, object] = {"divisors": divisor.size, "divisors_zero": int(zeros)}
    if divisor.size == 1:
        return Cause("zero_divisor", "the divisor is 0", evidence, advice=_DIVISOR_ADVICE)
    return Cause("zero_divisor", text, evidence, "supported", _DIVISOR_ADVICE)


def _too_small_divisor(output: TensorFacts, divisor: TensorFacts) -> Cause | None:
    """Finite numbers whose quotient is beyond the range of the type."""
    largest, values = LARGEST.get(output.dtype), divisor.array
    if largest is None or values is None or output.count("nan") or divisor.count("non-finite"):
        return None
    smallest = float(np.abs(values.astype(np.float64)).min()) if values.size else 0.0
    if not 0 < smallest < 1:
        return None
    return Cause(
        "beyond_the_range",
        f"the quotient is beyond {number(largest)}, the largest {output.dtype}: divisors are as "
        f"small as {number(smallest)}",
        {"largest_of_dtype": largest, "smallest_divisor": smallest},
        advice=_DIVISOR_ADVICE,
    )


# -------------------------------------------------------------- matrix products


def explain_matrix_product(op: OpFacts) -> Cause | None:
    """NaN from zeros that meet infinities, or from infinities of both signs; Inf by the range."""
    output = op.output
    operands = _matrices(op)
    if output is None or output.array is None or operands is None:
        return explain_range(op)
    left, right = operands
    if not np.isinf(left).any() and not np.isinf(right).any():
        return explain_range(op) or _partial_sums(op, output)
    meets = _products(np.isinf(left), right == 0) + _products(left == 0, np.isinf(right))
    where = (meets > 0).reshape(-1)
    bad = is_kind(output.array, "nan").reshape(-1)
    places = compare_places(where, bad, "nan")
    if places is None:
        return None
    count = int(meets.sum())
    return Cause(
        "zero_times_inf",
        f"0 meets Inf in {count} {'product' if count == 1 else 'products'} of its sums"
        f"{places.text}",
        {"products": count, "explained": places.explained, "non_finite": places.bad},
        places.status,
    )


def _partial_sums(op: OpFacts, output: TensorFacts) -> Cause | None:
    """NaN from finite inputs: partial sums left the range with both signs."""
    largest = LARGEST.get(output.dtype)
    if largest is None or not output.count("nan"):
        return None
    return Cause(
        "beyond_the_range",
        f"its inputs are finite, so products of its sums leave the range of {output.dtype} "
        f"({number(largest)}) with both signs",
        {"largest_of_dtype": largest, "dtype": output.dtype},
        "supported",
    )


def _matrices(op: OpFacts) -> tuple[Array, Array] | None:
    """The two matrices that are multiplied; None if their shapes are not of a plain product."""
    found = [each.array for each in op.inputs if each.is_float]
    if op.kind in ("addmm", "baddbmm", "addbmm", "addmv") and len(found) == 3:
        found = found[1:]
    if len(found) < 2 or found[0] is None or found[1] is None:
        return None
    left, right = found[0], found[1]
    if op.kind == "linear":
        right = right.T
    fits = (
        left.ndim >= 1
        and right.ndim >= 1
        and left.shape[-1] == right.shape[-2 if right.ndim > 1 else 0]
    )
    return (left, right) if fits else None


def _products(left: Mask, right: Mask) -> Array:
    return np.asarray(np.matmul(left.astype(np.float32), right.astype(np.float32)))
