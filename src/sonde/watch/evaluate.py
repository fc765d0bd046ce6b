"""Evaluates watchpoints on tensors, and makes the findings.

This is the only place that does: the debugger at each op, "check now" at a pause and the check of a
dump give it their tensors as ``watch.measured_tensor.MeasuredTensor``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_

from sonde.core.errors import SondeError
from sonde.core.finding import EvidenceStatus, Severity
from sonde.core.graph import Source
from sonde.core.keys import TensorKey
from sonde.core.statistics import Statistics
from sonde.watch.conditions import Evidence, Judgement, Memory, Needs, measure, undecided
from sonde.watch.headline import (
    Headline,
    origin_headline,
    threshold_headline,
    unknown_origin_headline,
)
from sonde.watch.hit_text import chain_from, origin_note
from sonde.watch.hits import WatchpointHit
from sonde.watch.measured_tensor import MeasuredTensor, MissingStatisticError, RecordedStatistics
from sonde.watch.origins import Origin, Traced
from sonde.watch.watchpoint import Watch, WatchedNode


@dataclass(frozen=True, slots=True, eq=False)
class NodeWatches:
    """The watches that apply to the node ``op``, and what they need together."""

    op: str
    watches: tuple[Watch, ...]
    needs: Needs

    @classmethod
    def select(cls, watches: Iterable[Watch], node: WatchedNode) -> NodeWatches:
        found = tuple(watch for watch in watches if watch.applies_to(node))
        needs = reduce(or_, (watch.needs for watch in found)) if found else Needs()
        return cls(node.name, found, needs)

    def __bool__(self) -> bool:
        return bool(self.watches)


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """A watch that a tensor does not clear: a hit, or undecided."""

    op: str
    watch: Watch
    tensor: MeasuredTensor
    judgement: Judgement
    evidence: Evidence


def evaluate(
    planned: NodeWatches,
    tensor: MeasuredTensor,
    step: int,
    inputs_finite: Callable[[], bool | None] = lambda: None,
) -> Iterator[Evaluation]:
    """Evaluate the watches of a node on one of its tensors, from the cheapest evidence that is
    enough: statistics clear most watches; then recorded statistics; then the values, read once.

    ``inputs_finite`` is called if a watch needs to know whether the op's inputs were finite.
    """
    statistics = tensor.statistics()
    watches: Sequence[Watch] = planned.watches
    if statistics is not None:
        watches = [watch for watch in watches if not watch.clears(statistics)]
    if not watches:
        return
    are_finite = inputs_finite() if planned.needs.inputs else None
    recorded = tensor.recorded()
    measured: Evidence | None = None
    for watch in watches:
        found = None if recorded is None else _judge_recorded(watch, recorded, step, are_finite)
        if found is None:
            if measured is None:
                measured = _measure(tensor, planned.needs, statistics, step, are_finite)
            found = watch.judge(measured), measured
        judgement, evidence = found
        if judgement.verdict != "clear":
            yield Evaluation(planned.op, watch, tensor, judgement, evidence)


def _judge_recorded(
    watch: Watch, recorded: RecordedStatistics, step: int, inputs_finite: bool | None
) -> tuple[Judgement, Evidence] | None:
    """Evaluate from recorded statistics; None if the values are needed and can be read. A hit is
    confirmed with the values if there are any."""
    if watch.needs.between or watch.needs.previous:
        return None
    evidence = Evidence(
        statistics=recorded.now,
        previous=recorded.previous,
        inputs_finite=inputs_finite,
        step=step,
    )
    try:
        found = watch.judge(evidence)
    except MissingStatisticError as error:
        found = undecided("no_statistics", f"the dump has no {error.name.replace('_', ' ')} of it")
    if found.verdict == "clear" or recorded.is_all:
        return found, evidence
    return None


def _measure(
    tensor: MeasuredTensor,
    needs: Needs,
    statistics: Statistics | None,
    step: int,
    inputs_finite: bool | None,
) -> Evidence:
    memory = tensor.buffer()
    if isinstance(memory, str):
        return Evidence(
            missing=memory,
            non_finite=tensor.non_finite_count(),
            inputs_finite=inputs_finite,
            step=step,
        )
    return measure(
        memory,
        needs,
        previous=tensor.previous(needs),
        statistics=statistics,
        inputs_finite=inputs_finite,
        step=step,
    )


def summarize(memory: Memory | str) -> Statistics | None:
    """The statistics of a buffer; None if there is none, or its type has no statistics."""
    try:
        return None if isinstance(memory, str) else memory.summarize()
    except SondeError:
        return None


# ------------------------------------------------------------------------- findings


def make_hit(
    found: Evaluation, step: int, order: int, *, rank: int, source: Source | None
) -> WatchpointHit:
    """The finding of an evaluation, without an origin."""
    watch, is_hit = found.watch, found.judgement.verdict == "hit"
    where = TensorKey(step, order, found.op, found.tensor.io, found.tensor.slot)
    values = found.judgement.values
    severity: Severity = "warning" if is_hit else "info"
    status: EvidenceStatus = "supported" if is_hit else "hypothesis"
    return WatchpointHit(
        rule=watch.label,
        severity="error" if is_hit and watch.is_about_non_finite else severity,
        message=found.judgement.why,
        status=status,
        where=where,
        source=source,
        advice=watch.advice,
        rank=rank,
        watchpoint=watch.spec.id,
        dtype=found.tensor.dtype,
        shape=found.tensor.shape,
        verdict="hit" if is_hit else "undecided",
        values=values,
        reason=found.judgement.reason,
        headline=_without_origin(found, where, source) if is_hit else None,
    )


def _without_origin(found: Evaluation, where: TensorKey, source: Source | None) -> Headline:
    """The sentence about a hit as long as no origin of its values is known."""
    watch, values = found.watch, found.judgement.values
    if watch.is_about_non_finite:
        target = watch.conditions[0].target
        return unknown_origin_headline(target, where, values, found.tensor.shape, source)
    return threshold_headline(watch.spec.name, watch.label, where, values, source)


def add_origin(hit: WatchpointHit, traced: Traced, chain: tuple[str, ...]) -> WatchpointHit:
    """The hit with the origin of its NaN and Inf, which makes it an established finding.

    ``chain``: the ops of this step through which they came.
    """
    origin, is_hit = traced.origin, hit.verdict == "hit"
    note = origin_note(hit.where.op, traced, hit.where.step) if is_hit else ""
    return replace(
        hit,
        part="producer" if traced.is_producer else "carrier",
        origin=origin.op,
        chain=chain_from(origin.op, chain),
        message=hit.message + note,
        status="established" if is_hit else hit.status,
        headline=origin_headline(origin) if is_hit else None,
        advice=cause_advice(origin) or hit.advice,
    )


def cause_advice(origin: Origin) -> str:
    """What to do about the cause of the values, if the values show one."""
    made = origin.made or origin.turned
    return "" if made is None or made.cause is None else made.cause.advice
