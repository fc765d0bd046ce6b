"""Checks the weights of one checkpoint.

The rules, which are kinds of the one catalogue (docs/rules), and their policies:

- ``weight-not-finite`` (error): any NaN or Inf, in weights, buffers and optimizer state alike;
  ``detail`` is nan or inf.
- ``negative-variance`` (error): a running variance below zero.
- ``zero-init`` (warning): a weight matrix of zeros. Biases and running means may be zero; the
  weight of a norm is only noted (``info``), because some networks initialize it with zeros.
- ``constant-init`` (warning): a weight matrix of one value: all its neurons compute the same.
- ``dead-rows`` (warning): rows of a weight matrix, one per output, that are all zeros. A single
  such row in an embedding is its padding (``info``).
- ``initial-spread`` (warning): the standard deviation of a matrix is over 4 times, or under a
  fiftieth, of He's sqrt(2 / fan-in); ``initial-mean``: its mean exceeds its standard deviation.
  Not for embeddings, nor below 64 elements.
- ``weight-not-checked`` (warning): a dump of statistics without counts of NaN and Inf. For a dump
  of statistics only these are checked.
- ``large-weight`` (warning): an element beyond 10,000, or beyond half of the largest value of its
  type.

`resuming` has the rules about the file as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sonde.compare.parameter_names import role_of, tokens
from sonde.compare.weights.checkpoint import Checkpoint, Weight
from sonde.compare.weights.resuming import check_whole
from sonde.core.finding import EvidenceStatus, Finding, Severity
from sonde.core.statistics import Statistics
from sonde.kernels.low_precision import numbers

_MIN_COUNT = 64
_WIDE, _NARROW = 4.0, 0.02
_LARGE = 10_000.0
_CHUNK_ELEMENTS = 1 << 22
_TYPE_MAX = {
    "float16": 65504.0,
    "float8_e4m3fn": 448.0,
    "float8_e5m2": 57344.0,
    "float8_e4m3fnuz": 240.0,
    "float8_e5m2fnuz": 57344.0,
}


def check_checkpoint(checkpoint: Checkpoint) -> tuple[Finding, ...]:
    """All findings, in the order of the weights; the name of the weight is in the evidence. Those
    about the file as a whole come first."""
    names = checkpoint.weights.keys()
    found: list[Finding] = [*check_whole(checkpoint)]
    for name, weight in checkpoint.weights.items():
        role = role_of(name, names)
        statistics = weight.statistics()
        if statistics is None:
            found += _check_complex(weight) if weight.load is not None else _check_summary(weight)
            continue
        found += _check_finite(weight, statistics)
        if statistics.non_finite_count or not statistics.count or role == "counter":
            continue
        found += _check_large(weight, statistics)
        if role == "buffer":
            found += _check_buffer(weight, statistics)
        elif role == "weight":
            found += _check_weight(weight, statistics)
    return tuple(found)


_STATUS: Final[Mapping[str, EvidenceStatus]] = {
    "weight-not-finite": "established",
    "negative-variance": "established",
    "weight-not-checked": "hypothesis",
}
"""Rules about a broken invariant or about missing numbers; all others judge a statistic."""


def _finding(
    weight: Weight, rule: str, severity: Severity, message: str, advice: str, **evidence: object
) -> Finding:
    return Finding(
        rule,
        severity,
        f"{weight.name} {message}",
        status=_STATUS.get(rule, "supported"),
        parameter=weight.name,
        places=(weight.name,),
        evidence={"name": weight.name, "shape": list(weight.shape), **evidence},
        advice=advice,
    )


def _check_finite(weight: Weight, found: Statistics) -> Iterator[Finding]:
    yield from _count_findings(weight, "nan", "NaN", found.nan_count)
    infinite = found.positive_inf_count + found.negative_inf_count
    yield from _count_findings(weight, "inf", "infinities", infinite)


def _check_summary(weight: Weight) -> Iterator[Finding]:
    """Check the counts of a weight of which a dump has only statistics."""
    for detail, keys in (
        ("nan", ("nan count",)),
        ("inf", ("positive inf count", "negative inf count")),
    ):
        counts = [(weight.summary or {}).get(key) for key in keys]
        known = [count for count in counts if isinstance(count, int)]
        if known:
            yield from _count_findings(weight, detail, detail, sum(known))
        else:
            message = f"has no count of {detail} in its statistics"
            advice = "dump tensors, or statistics with the counts of NaN and Inf"
            yield _finding(weight, "weight-not-checked", "warning", message, advice)


def _check_complex(weight: Weight) -> Iterator[Finding]:
    if weight.dtype.startswith("complex"):
        values = weight.bits()
        count = int(values.size - np.isfinite(values).sum())
        yield from _count_findings(weight, "nan", "non-finite", count)


def _count_findings(weight: Weight, detail: str, noun: str, count: int) -> Iterator[Finding]:
    if count:
        message = f"has {count:,} {noun} of {weight.count:,} elements"
        advice = "find the op that made the first one: sonde run --overflow train.py"
        found = _finding(weight, "weight-not-finite", "error", message, advice, count=count)
        yield replace(found, detail=detail)


def _check_large(weight: Weight, found: Statistics) -> Iterator[Finding]:
    if not weight.dtype.startswith(("float", "bfloat")) or weight.dtype == "float8_e8m0fnu":
        return
    largest = float(found.abs_max)
    limit = min(_LARGE, 0.5 * _TYPE_MAX.get(weight.dtype, math.inf))
    if largest > limit:
        message = f"has an element of {largest:.3g}; over {limit:g} is rare in {weight.dtype}"
        advice = "lower the learning rate or clip gradients, if this grew"
        yield _finding(weight, "large-weight", "warning", message, advice, largest=largest)


def _check_buffer(weight: Weight, found: Statistics) -> Iterator[Finding]:
    if tokens(weight.name)[-1] == "running_var" and found.min < 0:
        message = f"is a variance and goes down to {found.min:.3g}"
        advice = "a variance is never below zero: names are mixed up, or the file is damaged"
        yield _finding(
            weight, "negative-variance", "error", message, advice, lowest=float(found.min)
        )


def _check_weight(weight: Weight, found: Statistics) -> Iterator[Finding]:
    is_matrix = len(weight.shape) >= 2 and found.count > 1
    if found.zero_count == found.count:
        if is_matrix:
            advice = "was it initialized, and does a gradient reach it?"
            yield _finding(weight, "zero-init", "warning", "is all zeros", advice)
        elif tokens(weight.name)[-1] == "weight":
            advice = "intended in some networks: a residual branch that is zero at first"
            yield _finding(weight, "zero-init", "info", "is all zeros", advice)
        return
    if not is_matrix:
        return
    if found.min == found.max:
        advice = "its neurons all compute the same and will learn the same: initialize it at random"
        message = f"has one value everywhere, {float(found.min):.3g}"
        yield _finding(weight, "constant-init", "warning", message, advice)
        return
    yield from _check_rows(weight)
    if weight.dtype.startswith(("float", "bfloat")) and not _is_table(weight):
        yield from _check_spread(weight, found)


def _check_rows(weight: Weight) -> Iterator[Finding]:
    alive = _alive_rows(weight)
    dead = int(alive.size - alive.sum())
    if not dead:
        return
    where = np.flatnonzero(~alive)[:5].tolist()
    shown = ", ".join(map(str, where)) + (", ..." if dead > 5 else "")
    message = f"has {dead:,} of {alive.size:,} rows that are all zeros: {shown}"
    severity: Severity = "warning"
    advice = "these outputs are always the bias: were the rows pruned, or never initialized?"
    if dead == 1 and _is_table(weight):
        severity, advice = "info", "the padding of an embedding is such a row"
    yield _finding(weight, "dead-rows", severity, message, advice, rows=where, count=dead)


def _alive_rows(weight: Weight) -> NDArray[np.bool_]:
    """Whether each row along the first axis has an element that is not zero."""
    bits = weight.bits().reshape(weight.shape[0], -1)
    step = max(1, _CHUNK_ELEMENTS // max(bits.shape[1], 1))
    parts = [
        np.any(numbers(bits[start : start + step], weight.storage) != 0, axis=1)
        for start in range(0, bits.shape[0], step)
    ]
    return np.concatenate(parts) if parts else np.zeros(0, np.bool_)


def _check_spread(weight: Weight, found: Statistics) -> Iterator[Finding]:
    fan_in = math.prod(weight.shape[1:])
    if found.count < _MIN_COUNT or not math.isfinite(found.std) or not fan_in:
        return
    usual = math.sqrt(2 / fan_in)
    evidence = {"std": found.std, "avg": found.avg, "usual": usual}
    if not _NARROW * usual <= found.std <= _WIDE * usual:
        message = (
            f"has a standard deviation of {found.std:.3g}; for {fan_in} inputs about {usual:.3g} "
            "is usual"
        )
        advice = "check how it is initialized"
        yield _finding(weight, "initial-spread", "warning", message, advice, **evidence)
    if abs(found.avg) > found.std:
        message = f"has the mean {found.avg:.3g}, beyond its standard deviation {found.std:.3g}"
        advice = "weights are usually initialized around zero: check how it is initialized"
        yield _finding(weight, "initial-mean", "warning", message, advice, **evidence)


def _is_table(weight: Weight) -> bool:
    name = weight.name.lower()
    return "embed" in name or any(part in ("wte", "wpe", "emb") for part in tokens(name))
