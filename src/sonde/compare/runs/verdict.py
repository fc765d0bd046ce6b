"""Derives the verdict and the first divergence from the assessed pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isnan
from typing import Final

from sonde.compare.runs.overview import growth_of, module_path
from sonde.compare.runs.result import DivergenceStart, LossPair, OpPair, RunComparison, TensorPair
from sonde.core.finding import EvidenceStatus, Finding
from sonde.core.keys import TensorKey
from sonde.core.text.number_text import count_text

Readers = Mapping[tuple[int, int, str], OpPair]


def reach_verdict(found: RunComparison, readers: Readers) -> RunComparison:
    """The comparison with verdict, first divergence and reasons.

    Diverged: an op is at fault. Incomparable: no op is at fault, but files are damaged. If no op is
    at fault but a loss is out of tolerance, the op whose error is closest to its tolerance is named
    as a hypothesis, unless one side computes in lower precision, which explains the difference.
    """
    divergence = _first(found, readers)
    is_bad = divergence is not None
    if not is_bad and not found.mixed and any(loss.agrees is False for loss in found.losses):
        divergence, is_bad = _suspect(found), True
    damage = damaged(found)
    end = len(found.pairs) if divergence is None else divergence.pair.order
    growth = growth_of([pair for pair in found.pairs if pair.order < end])
    return replace(
        found,
        verdict="diverged" if is_bad else "incomparable" if damage else "aligned",
        first_divergence=divergence,
        growth=growth,
        reasons=tuple(_reasons(replace(found, growth=growth), divergence)),
        notes=(*found.notes, *_about_damage(damage)),
    )


def damaged(found: RunComparison) -> list[str]:
    """The problems of the files that could not be read."""
    return [
        str(tensor.problem)
        for pair in found.pairs
        for tensor in pair.tensors
        if tensor.problem_kind == "damaged"
    ]


def _about_damage(damage: Sequence[str]) -> list[str]:
    if not damage:
        return []
    more = f"; and {len(damage) - 1} more" if len(damage) > 1 else ""
    return [f"a tensor could not be read: {damage[0]}{more}"]


def _first(found: RunComparison, readers: Readers) -> DivergenceStart | None:
    """The first pair at fault. A parameter or input is reported at the first op that reads it."""
    candidates: list[tuple[int, int, OpPair, OpPair]] = []
    for pair in found.pairs:
        if pair.status == "diverged" or _has_other_shape(pair):
            shown = pair
            if pair.is_leaf:
                reader = readers.get((pair.rank, pair.step, pair.a), pair)
                shown = replace(reader, fault=pair.fault) if pair.fault else reader
            candidates.append((pair.step, shown.order, pair, shown))
    if not candidates:
        return None
    _, _, pair, shown = min(candidates, key=lambda each: each[:2])
    tensor = _worst(pair)
    rule, cause = _cause(pair, tensor, found)
    inheritors = sum(each.status == "inherited" for each in found.pairs)
    # Established: equal inputs, and an output that its own rounding does not explain.
    is_certain = tensor.by == "values" and pair.input_error == 0
    status: EvidenceStatus = "established" if is_certain else "supported"
    return DivergenceStart(shown, tensor, _finding(rule, cause, status, shown, tensor), inheritors)


def _finding(
    rule: str, message: str, status: EvidenceStatus, pair: OpPair, tensor: TensorPair
) -> Finding:
    place = tensor.a
    return Finding(
        rule,
        "error",
        message,
        status=status,
        where=TensorKey(pair.step, pair.order, place.op, place.io, place.slot),
        source=pair.source,
        evidence={
            "rank": pair.rank,
            "ranks": list(pair.ranks),
            "a": str(tensor.a),
            "b": str(tensor.b),
            "source_b": pair.source_b,
            "error": tensor.error,
            "input_error": pair.input_error,
            "tolerance": pair.tolerance,
            "allowed": pair.allowed,
            "distances": tensor.distances,
        },
        advice=_ADVICE[rule],
    )


_ADVICE: Final = {
    "parameter": "start both runs from the same weights; sonde params A B compares them",
    "input": "feed both runs the same data in the same order",
    "shapes": "compare the shapes in both scripts at this line",
    "missing-op": "add or remove the op in one of the scripts",
    "argument": "give the op the same arguments in both scripts",
    "dtype": "check casts and autocast around this op",
    "update": "compare optimizer, learning rate, momentum, decay and clipping",
    "non-finite": "sonde run --overflow names the op that produced the first NaN or Inf",
    "random": "seed both runs alike; sonde run --deterministic does so",
    "op-type": "use the same op in both scripts",
    "gradient": "compare how the gradients are added up, exchanged between ranks and clipped",
    "missing-on-rank": "run the same ops on all ranks",
    "output": "compare the lines of both scripts, and the kernels that execute the op",
    "closest": "compare more steps, or dump values instead of statistics",
}
"""The rules of a first divergence, each with its advice."""


def _has_other_shape(pair: OpPair) -> bool:
    return pair.status == "incomparable" and any(
        tensor.problem_kind == "shapes" for tensor in pair.tensors
    )


def _worst(pair: OpPair) -> TensorPair:
    """The tensor that could not be compared, or else that with the largest error."""
    return max(
        pair.tensors, key=lambda each: (isnan(each.error), each.error == pair.error, each.error)
    )


def _cause(pair: OpPair, tensor: TensorPair, found: RunComparison) -> tuple[str, str]:
    """The rule that explains the divergence, and a sentence."""
    if pair.kind == "parameter":
        others = -1 + sum(
            each.status == "diverged" and each.kind == "parameter" and each.step == pair.step
            for each in found.pairs
        )
        verb = "does" if others == 1 else "do"
        more = f"; so {verb} {count_text(others, 'other parameter')}" if others > 0 else ""
        about = f": {pair.fault.text}" if pair.fault is not None and pair.fault.text else ""
        return "parameter", f"the parameter {pair.b} differs before the step begins{about}{more}"
    if pair.kind == "input":
        text = f"the input {pair.b} of the step differs: not the same data, or not the same order"
        return "input", text
    if pair.status == "incomparable":
        return "shapes", "; ".join(pair.notes)
    if pair.fault is not None and pair.fault.rule:
        return pair.fault.rule, pair.fault.text
    if pair.how == "place":
        names = f"{_short(pair.a)} in a is in the place of {_short(pair.b)} in b"
        return "missing-op", f"{names}: an op is missing or added"
    if pair.notes:
        return "argument", "; ".join(pair.notes)
    if tensor.a.dtype != tensor.b.dtype:
        dtypes = f"computed in {tensor.a.dtype} in a and in {tensor.b.dtype} in b"
        return "dtype", f"{dtypes}, unlike the ops around it"
    if pair.kind == "state":
        return "update", f"{tensor.b.parameter} is updated differently, from inputs that agree"
    if tensor.distances is not None and tensor.distances.non_finite_disagreed:
        count = tensor.distances.non_finite_disagreed
        text = f"NaN or Inf in one run only, {count} of {tensor.distances.count} elements"
        return "non-finite", text
    if pair.kind == "random":
        return "random", "random numbers differ: seeds, or the order of draws"
    if pair.type_a != pair.type_b and found.a.writer == found.b.writer:
        return "op-type", f"{pair.type_a} in a, {pair.type_b} in b"
    return "output", "its inputs agree, its output does not"


def _short(name: str) -> str:
    return name.rpartition("/")[2]


def _suspect(found: RunComparison) -> DivergenceStart | None:
    """The pair whose error is closest to its tolerance."""
    rated = [pair for pair in found.pairs if pair.tensors and pair.allowed > 0 and not pair.is_leaf]
    if not rated:
        return None
    pair = max(rated, key=lambda each: each.error / each.allowed)
    cause = "no op is clearly at fault; this one is closest to its tolerance"
    tensor = _worst(pair)
    return DivergenceStart(pair, tensor, _finding("closest", cause, "hypothesis", pair, tensor), 0)


def _reasons(found: RunComparison, divergence: DivergenceStart | None) -> list[str]:
    reasons = _about_losses(found.losses, explained=divergence is None and found.mixed)
    if divergence is not None:
        pair = divergence.pair
        subnet = next(
            (
                part.name
                for part in found.parts
                if part.step == pair.step and part.level == "subnet" and part.status == "diverged"
            ),
            None,
        )
        layer = module_path(pair.scope)
        if subnet is not None and pair.phase == "forward":
            reasons.append(f"step {pair.step}: the first subnet that differs is {subnet}")
        if layer:
            reasons.append(f"step {pair.step}: the first layer that differs is {layer}")
    for growth in found.growth:
        reasons.append(
            f"step {growth.step}: rounding goes from {growth.first:.1e} to {growth.last:.1e} "
            f"along the forward pass, {growth.per_op:.3g} times per op"
        )
    return reasons


def _about_losses(losses: Sequence[LossPair], *, explained: bool) -> list[str]:
    known = [loss for loss in losses if loss.agrees is not None]
    if not known:
        return []
    bad = next((loss for loss in known if not loss.agrees), None)
    if bad is None:
        steps = ", ".join(str(loss.step) for loss in known[:4])
        more = " and later" if len(known) > 4 else ""
        return [f"the losses of step {steps}{more} agree"]
    values = f"{bad.a:.7g} and {bad.b:.7g}"
    if explained:
        return [f"the losses of step {bad.step} differ ({values}), as far as rounding explains"]
    if bad is known[0]:
        return [f"the losses of step {bad.step} differ ({values}): the forward pass is wrong"]
    return [
        f"the loss of step {known[0].step} agrees, that of step {bad.step} differs ({values}): "
        "the forward pass is right, the gradients or the update are wrong"
    ]
