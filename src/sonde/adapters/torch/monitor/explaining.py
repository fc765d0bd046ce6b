"""Explains a step that triggered, by executing it again: the op, its line, rows of the batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sonde.adapters.torch.debugging.signals.norms import norms, whole_norm
from sonde.adapters.torch.monitor.cleared_gradients import Cleared, cleared_passes, source_at
from sonde.adapters.torch.monitor.error_lines import error_source, is_same_error
from sonde.adapters.torch.replay.execution import Execution, execute
from sonde.adapters.torch.replay.origin_search import ExtremeRows
from sonde.adapters.torch.replay.questions.changed_records import with_rows
from sonde.adapters.torch.replay.recorder import StepRecorder
from sonde.adapters.torch.replay.run_again import (
    Replayed,
    batch_size,
    differing_rows,
    is_non_finite,
    observe,
    run_again,
)
from sonde.adapters.torch.replay.step_record import ModuleCall, OutsideOp, StepRecord
from sonde.core.graph import OpNode, Source
from sonde.monitor.triggers import Trigger
from sonde.replay.row_bisection import RowSet, smallest_rows

_MOST_ROWS = 100_000
_MOST_EXECUTIONS = 40
_MOST_SECONDS = 30.0
"""The training waits while rows are searched for."""


@dataclass(frozen=True, slots=True)
class StepExplanation:
    """What executing a step again has shown.

    ``rows`` of ``row_count``: the rows of the batch that suffice for the trigger. If the search for
    them was ended, perhaps fewer do: ``ended_after`` so many executions; else it is None.
    ``extreme``: the first op in which these rows have far larger values than the others.
    ``loss_source``: the line that computed the loss. ``is_compiler_only``: compiled code gives NaN
    or Inf, the same ops one by one do not; ``compiled_call``: the line that called it.
    ``error_source``: the line of the program that raised. ``is_of_other_rank``: gradients that
    ranks have averaged are not finite or too large, those that this rank computed are not.
    """

    replayed: Replayed
    rows: tuple[int, ...] = ()
    row_count: int = 0
    cleared: tuple[Cleared, ...] = ()
    extreme: OpNode | None = None
    loss_source: Source | None = None
    is_compiler_only: bool = False
    compiled_call: Source | None = None
    error_source: Source | None = None
    is_of_other_rank: bool = False
    ended_after: int | None = None


def explain(
    record: StepRecord, recorder: StepRecorder, triggers: Sequence[Trigger]
) -> StepExplanation:
    """Execute ``record`` again, and look for the cause of its first trigger. The training is
    afterwards as it was."""
    replayed = run_again(record, recorder=recorder, select_rows=with_rows)
    trigger = triggers[0]
    rows: tuple[int, ...] = ()
    count = batch_size(record, replayed.micro_batch) or 0
    found: RowSet | None = None
    extreme: OpNode | None = None
    with recorder.replaying():
        if replayed.rows is not None:
            rows, count = replayed.rows.rows, replayed.rows.size
        elif replayed.first_differing_op is not None:
            rows = differing_rows(record, replayed.first_differing_op, recorder.scopes)
        elif replayed.plain.was_run and trigger.quantity != "weight":
            found = _sufficient_rows(record, _test(trigger, replayed, record.averaged_over))
        if found is not None:
            rows = found.rows
        if trigger.kind == "spike" and 0 < len(rows) < count:
            extreme = _extreme_op(record, rows, count, recorder)
        raised_at = error_source(record, replayed.plain)
    return StepExplanation(
        replayed,
        rows,
        count,
        tuple(cleared_passes(record, record.optimizer)),
        extreme,
        _loss_source(record) if trigger.kind == "spike" else None,
        _is_compiler_only(replayed),
        next((source_at(call.line) for call in record.calls), None),
        raised_at,
        _is_of_other_rank(record, replayed.plain, trigger),
        found.executions if found is not None and not found.is_minimal else None,
    )


_Holds = Callable[[Execution], bool]


def _test(trigger: Trigger, replayed: Replayed, ranks: int) -> _Holds | None:
    """Whether an execution with some rows does what the step did; None if rows cannot be judged.
    ``ranks``: how many average the gradients."""
    threshold, plain = trigger.threshold, replayed.plain
    if trigger.kind == "exception":
        return lambda done: is_same_error(done.error, plain.error)
    if trigger.kind == "spike" and threshold is not None:
        limit = threshold
        return lambda done: done.error is None and _part_of(done, trigger, ranks) > limit
    if is_non_finite(plain):
        return lambda done: done.error is None and is_non_finite(done)
    return None


def _sufficient_rows(record: StepRecord, holds: _Holds | None) -> RowSet | None:
    """The rows for which the test holds; None if they are not found."""
    count = batch_size(record)
    if holds is None or count is None or not 1 < count <= _MOST_ROWS:
        return None
    end = time.monotonic() + _MOST_SECONDS
    return smallest_rows(
        count,
        lambda rows: holds(execute(with_rows(record, rows))),
        most=_MOST_EXECUTIONS,
        is_over=lambda: time.monotonic() >= end,
    )


def _part_of(done: Execution, trigger: Trigger, ranks: int) -> float:
    """The loss, or the norm of what this rank adds to the gradients, which ranks may average."""
    if trigger.quantity == "loss":
        return float(sum(float(each) for each in done.losses if each is not None))
    gradients = [gradient for _, gradient in done.gradients.values()]
    found = whole_norm(norms(gradients))
    return 0.0 if np.isnan(found) else found / ranks


def _extreme_op(
    record: StepRecord, rows: Sequence[int], count: int, recorder: StepRecorder
) -> OpNode | None:
    search = ExtremeRows(frozenset(rows), count)
    observe(record, search, recorder.scopes)
    return search.found


def _loss_source(record: StepRecord) -> Source | None:
    """The line that computed what the last backward pass began at."""
    passes = record.backward_passes
    roots = {id(root) for root in passes[-1].roots} if passes else set()
    for event in reversed(record.events):
        if isinstance(event, OutsideOp) and any(id(each) in roots for each in event.outputs):
            return source_at(event.line)
        if isinstance(event, ModuleCall) and any(id(one.tensor) in roots for one in event.outputs):
            return source_at(event.line)
    return None


def _is_compiler_only(replayed: Replayed) -> bool:
    """Whether the step gives NaN or Inf again, bit for bit, but not when its ops are observed: all
    that differs then is that compiled code runs op by op."""
    observed = replayed.observed
    if observed is None or not replayed.is_exact:
        return False
    return is_non_finite(replayed.plain) and not is_non_finite(observed)


def _is_of_other_rank(record: StepRecord, plain: Execution, trigger: Trigger) -> bool:
    ranks, limit = record.averaged_over, trigger.threshold
    if ranks <= 1 or not plain.was_run or plain.error is not None or trigger.quantity == "loss":
        return False
    if trigger.kind == "spike" and limit is not None:
        return _part_of(plain, trigger, ranks) <= limit
    is_bad = trigger.kind == "non-finite" and trigger.quantity == "gradient"
    return is_bad and not is_non_finite(plain)
