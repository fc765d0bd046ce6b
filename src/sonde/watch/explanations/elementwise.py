"""Ops that compute each element by itself: the inputs at which they are not defined, or too large.

A ``PointRule`` names the elements of one input that give NaN or Inf. Where the values are known,
their places are compared with those of the NaN or Inf; else a count of the statistics is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from sonde.core.interruption import pass_on
from sonde.watch.explanations.cause import Cause, Kind, compare_places, number, share, verb
from sonde.watch.explanations.op_facts import Array, Mask, OpFacts, TensorFacts, is_kind
from sonde.watch.explanations.value_range import LARGEST, natural_logarithm_limit

Count = Callable[[TensorFacts], float | None]


@dataclass(frozen=True, slots=True)
class PointRule:
    """Elements of input ``slot`` that give ``kind``. ``words`` follow "are"; ``extreme`` is the
    statistic to show after them ("finite_min"), and ``tail`` follows that. ``count`` counts them
    from statistics, ``holds`` finds them; ``needs`` says whether the rule applies to this
    execution."""

    kind: Kind
    detail: str
    words: str
    holds: Callable[[Array, OpFacts], Mask]
    extreme: str = ""
    count: Count | None = None
    needs: Callable[[OpFacts], bool] = lambda op: True
    noun: str = "its {} inputs"
    slot: int = 0
    advice: str = ""
    tail: str = ""


def explain_points(op: OpFacts, rules: tuple[PointRule, ...]) -> Cause | None:
    """The first rule that the values bear out."""
    output = op.output
    if output is None:
        return None
    for rule in rules:
        source = op.input(rule.slot)
        if source is None or not output.count(rule.kind) or not rule.needs(op):
            continue
        found = _by_values(op, rule, source, output) or _by_counts(rule, source)
        if found is not None:
            return found
    return None


def _by_values(
    op: OpFacts, rule: PointRule, source: TensorFacts, output: TensorFacts
) -> Cause | None:
    values, made = source.array, output.array
    if values is None or made is None:
        return None
    with np.errstate(all="ignore"):
        where = rule.holds(values, op)
    count = int(where.sum())
    try:
        spread = np.broadcast_to(where, made.shape)
    except ValueError as error:
        pass_on(error)
        return None
    places = compare_places(spread, is_kind(made, rule.kind), rule.kind)
    if not count or places is None:
        return None
    is_single = source.size == 1
    evidence: dict[str, object] = {
        "inputs": source.size,
        "inputs_at_fault": count,
        "explained": places.explained,
        "non_finite": places.bad,
    }
    text = f"{share(count, source, rule.noun)} {verb(count)} {_words(rule, source)}"
    extreme = source.number(rule.extreme) if rule.extreme else None
    if extreme is not None:
        evidence[rule.extreme.removeprefix("finite_")] = extreme
        text += f" ({number(extreme)})" if is_single else f" ({_extreme_text(rule, extreme)})"
    return Cause(
        rule.detail,
        text + rule.tail.format(dtype=source.dtype) + ("" if is_single else places.text),
        evidence,
        places.status,
        rule.advice,
    )


def _by_counts(rule: PointRule, source: TensorFacts) -> Cause | None:
    """From statistics: how many elements are at fault, not where they are."""
    if source.array is not None or rule.count is None:
        return None
    count = rule.count(source)
    if not count:
        return None
    extreme = source.number(rule.extreme) if rule.extreme else None
    evidence: dict[str, object] = {"inputs": source.size, "inputs_at_fault": int(count)}
    text = f"{share(int(count), source, rule.noun)} {verb(int(count))} {_words(rule, source)}"
    if extreme is not None:
        evidence[rule.extreme.removeprefix("finite_")] = extreme
        text += f" ({_extreme_text(rule, extreme)})"
    text += rule.tail.format(dtype=source.dtype)
    return Cause(rule.detail, text, evidence, "supported", rule.advice)


def _words(rule: PointRule, source: TensorFacts) -> str:
    if "{limit}" not in rule.words:
        return rule.words
    limit = natural_logarithm_limit(source.dtype)
    return rule.words.format(limit="the limit" if limit is None else f"{limit:.4g}")


def _extreme_text(rule: PointRule, value: float) -> str:
    if rule.tail:  # Beside another number, "largest" would not say of what.
        return f"up to {number(value)}"
    return f"{'smallest' if rule.extreme.endswith('min') else 'largest'} {number(value)}"


# ------------------------------------------------------------------------- rules


def _below(limit: float) -> Callable[[Array, OpFacts], Mask]:
    return lambda values, op: values < limit


def _equal(limit: float) -> Callable[[Array, OpFacts], Mask]:
    return lambda values, op: values == limit


def _outside(limit: float) -> Callable[[Array, OpFacts], Mask]:
    return lambda values, op: np.abs(values) > limit


def _statistic(name: str) -> Count:
    return lambda tensor: tensor.number(name)


_NEGATIVE: Final = _statistic("negative_count")
_ZERO: Final = _statistic("zero_count")
_CLAMP: Final = "Clamp its input from below (x.clamp(min=eps)), or find out why it is negative."
_ADD_EPS: Final = "Add a small eps to its input, or find out why it is 0."
_DIVISOR: Final = "Add a small eps to the divisor, or find out why it is 0."

NEGATIVE_ROOT: Final = PointRule(
    "nan", "negative_input", "negative", _below(0), "finite_min", _NEGATIVE, advice=_CLAMP
)
_ZERO_INPUT: Final = PointRule("inf", "zero_input", "0", _equal(0), "", _ZERO, advice=_ADD_EPS)


def _is_beyond_exp(values: Array, op: OpFacts) -> Mask:
    limit = natural_logarithm_limit(op.inputs[0].dtype)
    return values > (np.inf if limit is None else limit)


def _count_beyond_exp(tensor: TensorFacts) -> float | None:
    """At least one, if the largest is beyond the limit: statistics do not tell how many."""
    high, limit = tensor.number("finite_max"), natural_logarithm_limit(tensor.dtype)
    return (
        1.0
        if tensor.size == 1 and high is not None and limit is not None and high > limit
        else None
    )


EXPONENTIAL: Final = PointRule(
    "inf",
    "exponent_too_large",
    "above {limit}",
    _is_beyond_exp,
    "finite_max",
    _count_beyond_exp,
    tail=", where exp overflows {dtype}",
    advice="Subtract the maximum before exp (softmax, logsumexp do), clamp its input, or find out "
    "why it is so large.",
)


def explain_exponential_result(op: OpFacts) -> Cause | None:
    """``exp`` whose input is not known, as in a graph of autograd, which keeps its result."""
    output = op.output
    largest = None if output is None else LARGEST.get(output.dtype)
    limit = None if output is None else natural_logarithm_limit(output.dtype)
    count = 0 if output is None else output.count("inf")
    if output is None or largest is None or limit is None or not count:
        return None
    there = "its input is" if output.size == 1 else "its inputs there are"
    return Cause(
        EXPONENTIAL.detail,
        f"{share(count, output, 'its {} results')} {verb(count)} beyond {number(largest)}, the "
        f"largest {output.dtype}: {there} above {limit:.4g}",
        {"results": output.size, "results_at_fault": count, "limit": limit},
        "supported",
        EXPONENTIAL.advice,
    )


def _fractional(op: OpFacts) -> bool:
    exponent = op.scalar("exponent")
    return exponent is not None and exponent != int(exponent)


def _negative_exponent(op: OpFacts) -> bool:
    exponent = op.scalar("exponent")
    return exponent is not None and exponent < 0


def _is_beyond_power(values: Array, op: OpFacts) -> Mask:
    exponent, output = op.scalar("exponent"), op.output
    largest = None if output is None else LARGEST.get(output.dtype)
    if exponent is None or largest is None or exponent <= 0:
        return np.zeros(values.shape, np.bool_)
    return np.asarray(np.abs(values.astype(np.float64)) > largest ** (1 / exponent))


def _is_pole(values: Array, op: OpFacts) -> Mask:
    return np.asarray((values <= 0) & (values == np.floor(values)))


_DIVISORS: Final = "its {} divisors"

POINT_RULES: Final[dict[str, tuple[PointRule, ...]]] = {
    "sqrt": (NEGATIVE_ROOT,),
    "rsqrt": (NEGATIVE_ROOT, _ZERO_INPUT),
    **dict.fromkeys(("log", "log2", "log10"), (NEGATIVE_ROOT, _ZERO_INPUT)),
    "log1p": (
        PointRule("nan", "below_minus_one", "below -1", _below(-1), "finite_min", advice=_CLAMP),
        PointRule("inf", "minus_one", "-1", _equal(-1), advice=_ADD_EPS),
    ),
    "reciprocal": (_ZERO_INPUT,),
    "exp": (EXPONENTIAL,),
    "expm1": (EXPONENTIAL,),
    "pow": (
        PointRule(
            "nan",
            "negative_base",
            "negative, and the exponent is not whole",
            _below(0),
            "finite_min",
            _NEGATIVE,
            _fractional,
            advice=_CLAMP,
        ),
        PointRule(
            "inf",
            "zero_base",
            "0, and the exponent is negative",
            _equal(0),
            "",
            _ZERO,
            _negative_exponent,
            advice=_ADD_EPS,
        ),
        PointRule(
            "inf",
            "beyond_the_range",
            "so large that the power leaves the range of its type",
            _is_beyond_power,
            "finite_max",
            advice="Look where its inputs grew, or compute it in float32 or bfloat16.",
        ),
    ),
    **dict.fromkeys(
        ("acos", "asin", "arccos", "arcsin"),
        (PointRule("nan", "outside_one", "outside of [-1, 1]", _outside(1), "finite_max"),),
    ),
    "acosh": (PointRule("nan", "below_one", "below 1", _below(1), "finite_min"),),
    **dict.fromkeys(
        ("atanh", "erfinv"),
        (
            PointRule("nan", "outside_one", "outside of [-1, 1]", _outside(1), "finite_max"),
            PointRule("inf", "at_one", "-1 or 1", lambda values, op: np.abs(values) == 1),
        ),
    ),
    "logit": (
        PointRule(
            "nan",
            "outside_unit_interval",
            "outside of [0, 1]",
            lambda values, op: (values < 0) | (values > 1),
            "finite_max",
        ),
        PointRule(
            "inf", "at_zero_or_one", "0 or 1", lambda values, op: (values == 0) | (values == 1)
        ),
    ),
    **dict.fromkeys(
        ("lgamma", "digamma"),
        (
            PointRule("inf", "at_a_pole", "0 or negative and whole", _is_pole, "finite_min"),
            PointRule("nan", "at_a_pole", "0 or negative and whole", _is_pole, "finite_min"),
        ),
    ),
    **dict.fromkeys(
        ("fmod", "remainder"),
        (
            PointRule(
                "nan",
                "zero_divisor",
                "0",
                _equal(0),
                "",
                _ZERO,
                noun=_DIVISORS,
                slot=1,
                advice=_DIVISOR,
            ),
        ),
    ),
    "xlogy": (
        PointRule("nan", "negative_input", "negative", _below(0), "finite_min", _NEGATIVE, slot=1),
        PointRule("inf", "zero_input", "0", _equal(0), "", _ZERO, slot=1, advice=_ADD_EPS),
    ),
}
"""By the name of the operator: the first rule that the values bear out explains it."""
