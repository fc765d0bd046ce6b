"""Executes a step again with every op observed, and says where its numbers went wrong."""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from sonde.adapters.torch import private
from sonde.adapters.torch.adapter import TorchAdapter
from sonde.adapters.torch.eager.naming.scopes import ScopeRegistry
from sonde.adapters.torch.eager.naming.source_lines import plain_function
from sonde.adapters.torch.replay.execution import Execution, execute
from sonde.adapters.torch.replay.kept_tensor import KeptTensor, tensors_in
from sonde.adapters.torch.replay.origin_search import (
    BatchRows,
    Digests,
    FoundOrigin,
    OriginSearch,
    ReplayedValues,
    differing_rows_of,
    first_difference,
)
from sonde.adapters.torch.replay.recorder import StepRecorder
from sonde.adapters.torch.replay.step_record import Event, ModuleCall, OutsideOp, StepRecord
from sonde.capture.requests import SelectionRequest
from sonde.capture.session import Session, Subscription
from sonde.core.finding import Finding
from sonde.core.graph import OpNode, Source
from sonde.core.interruption import pass_on
from sonde.core.selection import Selection, parse_steps
from sonde.core.sink import Sink

SelectRows = Callable[[StepRecord, Sequence[int]], StepRecord]


@dataclass(slots=True, eq=False)
class Replayed:
    """A step that was executed again.

    ``plain``: as the training executed it; ``observed``: with every op observed, compiled code op
    by op. ``origin`` names the op that NaN or Inf come from, with scope, line and rows.
    ``failed_op``: the op that raised, if the step raised. ``first_differing_op``: where two replays
    differ, if the step is not deterministic. ``lines`` were reported by the capture.
    """

    plain: Execution
    observed: Execution | None = None
    origin: Finding | None = None
    rows: BatchRows | None = None
    micro_batch: int | None = None
    failed_op: OpNode | None = None
    first_differing_op: OpNode | None = None
    lines: list[str] = field(default_factory=list)

    @property
    def is_exact(self) -> bool:
        return self.plain.is_exact

    @property
    def is_of_compiler(self) -> bool:
        """Whether NaN or Inf come only where the compiled code runs, not op by op."""
        if self.observed is None or not self.observed.was_run:
            return False
        return is_non_finite(self.plain) and not is_non_finite(self.observed)


def run_again(
    record: StepRecord,
    *,
    recorder: StepRecorder | None = None,
    select_rows: SelectRows | None = None,
) -> Replayed:
    """Execute ``record`` again: once as it was, to compare bit for bit, and once with every op
    observed, to find the origin of NaN and Inf. Everything is afterwards as it was.

    ``recorder``: the one that made the record, if it still records. ``select_rows`` makes the
    record of some rows of the batch, by which the rows are confirmed.
    """
    quiet: AbstractContextManager[None] = (
        nullcontext() if recorder is None else (recorder.replaying())
    )
    with quiet:
        plain = execute(record)
        result = Replayed(plain)
        if not plain.was_run:
            return result
        scopes = None if recorder is None else recorder.scopes
        place = _Place(record)
        search = OriginSearch(lambda: place.event, place.batch_size, weight_shapes(record))
        result.observed = observe(record, search, scopes, place=place, lines=result.lines)
        result.failed_op = search.failed
        if search.found is not None and _may_be_fault(record, plain, result.observed):
            _describe(search.found, record, result, select_rows)
        if not plain.is_exact and plain.differences:
            result.first_differing_op = find_nondeterministic_op(record, scopes)
        return result


def observe(
    record: StepRecord,
    sink: Sink,
    scopes: ScopeRegistry | None = None,
    *,
    place: _Place | None = None,
    lines: list[str] | None = None,
) -> Execution:
    """Execute ``record`` again with its ops handed to ``sink`` by the ordinary capture."""
    here = _Place(record) if place is None else place
    with observed(sink, record.step, scopes, lines) as adapter:

        def begin(event: Event | None) -> None:
            here.event = event
            adapter.observer.learner.outer = event_lines(event)

        return execute(record, begin_event=begin)


@contextmanager
def observed(
    sink: Sink, step: int, scopes: ScopeRegistry | None = None, lines: list[str] | None = None
) -> Iterator[TorchAdapter]:
    """Hand the ops of this block to ``sink`` by the ordinary capture, as those of one step."""
    selection = SelectionRequest(Selection(parse_steps("all"), None))
    said = [] if lines is None else lines
    failed = sink.op_failed if isinstance(sink, OriginSearch) else None
    session = Session([Subscription(sink, selection, failed)], step, said.append)
    adapter = TorchAdapter(
        session,
        name="Net",
        starts_at_once=True,
        step_by="manual",
        observe=("evaluation", "data"),
        scopes=scopes,
        watches_optimizers=False,
    )
    with adapter.attach():
        yield adapter
        adapter.end_step()


def find_nondeterministic_op(
    record: StepRecord, scopes: ScopeRegistry | None = None
) -> OpNode | None:
    """The first op that computes something else when the step is executed twice; None if the two
    replays are equal."""
    one, other = Digests(), Digests()
    observe(record, one, scopes)
    observe(record, other, scopes)
    return first_difference(one, other)


def differing_rows(
    record: StepRecord, op: OpNode, scopes: ScopeRegistry | None = None
) -> tuple[int, ...]:
    """The rows of the batch in which ``op`` computes something else when the step is executed
    twice; empty if they are not known."""
    one, other = ReplayedValues(op.name), ReplayedValues(op.name)
    observe(record, one, scopes)
    observe(record, other, scopes)
    return differing_rows_of(one, other, batch_size(record) or 0)


class _Place:
    """The event of the step that runs, and the size of its batch."""

    def __init__(self, record: StepRecord) -> None:
        self._record = record
        self.event: Event | None = None

    def batch_size(self) -> int | None:
        return batch_size(self._record, micro_batch_of(self._record, self.event))


def weight_shapes(record: StepRecord) -> frozenset[tuple[int, ...]]:
    """The shapes of the weights of a step, and of their transposes."""
    found = [each.shape for call in record.calls for each in call.module.parameters()]
    return frozenset(tuple(each) for shape in found for each in (shape, shape[::-1]))


def batch_size(record: StepRecord, micro_batch: int | None = None) -> int | None:
    """The rows of the batch: the first size of the first input of the first call."""
    for call in record.calls:
        if micro_batch is not None and call.micro_batch != micro_batch:
            continue
        for kept in call.inputs:
            if not kept.requires_grad and kept.alias.dim():
                return int(kept.alias.shape[0])
    return None


def micro_batch_of(record: StepRecord, event: Event | None) -> int | None:
    """Which of the backward passes of the step ``event`` belongs to; None if it is unknown."""
    count = 0
    for each in record.events:
        if each is event:
            return count
        count += not isinstance(each, (ModuleCall, OutsideOp))
    return None


def event_lines(event: Event | None) -> tuple[Source, ...]:
    """The line of the program that called a module or an op: a replay calls it itself."""
    if not isinstance(event, (ModuleCall, OutsideOp)) or event.line is None:
        return ()
    code, number = event.line
    text = linecache.getline(code.co_filename, number).strip()
    return (Source(code.co_filename, number, plain_function(code.co_name), text),)


# --------------------------------------------------------------------------- origins


def _may_be_fault(record: StepRecord, plain: Execution, observed: Execution) -> bool:
    """Whether NaN or Inf reach the loss or a gradient; those that do not are not a fault. Of a loss
    that was computed in a way that is not recorded that is not known."""
    if plain.error is not None or not all(each.is_connected for each in record.backward_passes):
        return True
    return is_non_finite(plain) or is_non_finite(observed)


def _describe(
    found: FoundOrigin,
    record: StepRecord,
    result: Replayed,
    select_rows: SelectRows | None,
) -> None:
    origin, node = found.origin, found.node
    result.micro_batch = micro_batch_of(record, found.event)
    rows = found.rows
    if rows is not None and select_rows is not None and len(rows.rows) < rows.size:
        rows = replace(rows, is_confirmed=_confirm(record, rows, select_rows))
    result.rows = rows
    evidence: dict[str, object] = {
        "kind": origin.kind,
        "type": node.type,
        "scope": node.scope,
        "phase": node.phase,
    }
    if origin.kind == "leaf" and isinstance(found.event, ModuleCall):
        evidence["input"] = _bad_input(found.event)
    if origin.argument is not None:
        evidence["argument"] = origin.argument
    if rows is not None:
        evidence["rows"] = list(rows.rows)
        evidence["batch_size"] = rows.size
        evidence["rows_confirmed"] = rows.is_confirmed
    passes = len(record.backward_passes)
    if passes > 1:
        evidence["micro_batch"] = result.micro_batch
        evidence["micro_batches"] = passes
    made = origin.made or origin.turned
    cause = None if made is None else made.cause
    if cause is not None:
        evidence["cause"] = {"kind": cause.detail, "text": cause.message, **cause.evidence}
    result.origin = Finding(
        "non-finite-origin",
        "error",
        f"NaN or Inf begin at {origin.place}{'' if cause is None else f': {cause.message}'}",
        status="established",
        op=origin.op,
        parameter=origin.op if node.kind == "parameter" else None,
        source=origin.source,
        evidence=evidence,
        advice="" if cause is None else cause.advice,
        rank=record.rank,
    )


def _bad_input(call: ModuleCall) -> str | None:
    """The argument of ``call`` that has NaN or Inf, by its name in ``forward``."""
    try:
        given = inspect.signature(call.module.forward).bind(*call.args, **call.kwargs).arguments
    except (TypeError, ValueError) as error:
        pass_on(error)
        given = {str(number): each for number, each in enumerate(call.args)} | call.kwargs
    with private.unobserved():
        for name, tree in given.items():
            for kept in tensors_in(tree, KeptTensor):
                if not bool(torch.isfinite(kept.values).all()):
                    return name
    return None


def _confirm(record: StepRecord, rows: BatchRows, select_rows: SelectRows) -> bool | None:
    """Whether ``rows`` alone give non-finite values, and the other rows alone do not."""
    chosen = set(rows.rows)
    others = [row for row in range(rows.size) if row not in chosen]
    alone = execute(select_rows(record, rows.rows))
    rest = execute(select_rows(record, others))
    if alone.error is not None or rest.error is not None:
        return None
    return is_non_finite(alone) and not is_non_finite(rest)


def is_non_finite(done: Execution) -> bool:
    """Whether a loss or a gradient that a replay computed has NaN or Inf."""
    with private.unobserved():
        tensors: list[Any] = [gradient for _, gradient in done.gradients.values()]
        return any(
            each is not None and not bool(torch.isfinite(_values(each)).all())
            for each in (*tensors, *done.losses)
        )


def _values(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.coalesce().values() if tensor.layout is torch.sparse_coo else tensor
