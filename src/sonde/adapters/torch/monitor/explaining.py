"""Explains a step that triggered, by executing it again: the op, its line, rows of the batch."""

from __future__ import annotations

import linecache
import os
import re
import time
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

import sonde
from sonde.adapters.torch.monitor.norms import norms, whole_norm
from sonde.adapters.torch.replay.execution import Execution, execute
from sonde.adapters.torch.replay.questions.changed_records import with_rows
from sonde.adapters.torch.replay.recorder import StepRecorder
from sonde.adapters.torch.replay.run_again import (
    Replayed,
    batch_size,
    is_non_finite,
    run_again,
)
from sonde.adapters.torch.replay.step_record import BackwardPass, OutsideOp, StepRecord
from sonde.core import own_code
from sonde.core.graph import Source
from sonde.monitor.triggers import Trigger
from sonde.replay.row_bisection import RowSet, smallest_rows

_SONDE = os.path.dirname(os.path.abspath(sonde.__file__)) + os.sep
_MOST_ROWS = 100_000
_MOST_EXECUTIONS = 40
_MOST_SECONDS = 30.0
"""The training waits while rows are searched for."""
_CLEARING = ("zero_", "_foreach_zero_")


@dataclass(frozen=True, slots=True)
class Cleared:
    """The program cleared the gradients of backward pass ``number``, counted from 0, before the
    optimizer's step."""

    number: int
    passes: int
    source: Source | None


@dataclass(frozen=True, slots=True)
class StepExplanation:
    """What executing a step again has shown.

    ``rows`` of ``row_count``: the rows of the batch that suffice for the trigger. If the search for
    them was ended, perhaps fewer do: ``ended_after`` so many executions; else it is None.
    ``is_compiler_only``: compiled code gives NaN or Inf, the same ops one by one do not.
    ``error_source``: the line of the program that raised. ``is_of_other_rank``: gradients that
    ranks have exchanged are not finite, those that this rank computed are.
    """

    replayed: Replayed
    rows: tuple[int, ...] = ()
    row_count: int = 0
    cleared: Cleared | None = None
    is_compiler_only: bool = False
    error_source: Source | None = None
    is_of_other_rank: bool = False
    ended_after: int | None = None


def explain(
    record: StepRecord, recorder: StepRecorder, triggers: Sequence[Trigger]
) -> StepExplanation:
    """Execute ``record`` again, and look for the cause of its first trigger. The training is
    afterwards as it was."""
    replayed = run_again(record, recorder=recorder, select_rows=with_rows)
    rows: tuple[int, ...] = ()
    count = 0
    found: RowSet | None = None
    if replayed.rows is not None:
        rows, count = replayed.rows.rows, replayed.rows.size
    elif triggers[0].kind in ("spike", "exception") and replayed.plain.was_run:
        with recorder.replaying():
            found = _sufficient_rows(record, triggers[0], replayed.plain)
    if found is not None:
        rows, count = found.rows, batch_size(record) or 0
    with recorder.replaying():
        source = _error_source(record, replayed)
    return StepExplanation(
        replayed,
        rows,
        count,
        _cleared(record),
        _is_compiler_only(replayed),
        source,
        _is_of_other_rank(replayed, triggers),
        found.executions if found is not None and not found.is_minimal else None,
    )


def _sufficient_rows(record: StepRecord, trigger: Trigger, plain: Execution) -> RowSet | None:
    """The rows that alone exceed the threshold of a spike, or raise the same exception; None if
    they are not found."""
    count, threshold = batch_size(record), trigger.threshold
    if count is None or not 1 < count <= _MOST_ROWS:
        return None
    end = time.monotonic() + _MOST_SECONDS

    def holds(rows: Sequence[int]) -> bool:
        done = execute(with_rows(record, rows))
        if trigger.kind == "exception":
            return type(done.error) is type(plain.error) and str(done.error) == str(plain.error)
        size = _size_of(done, trigger.quantity)
        return done.error is None and threshold is not None and size > threshold

    return smallest_rows(
        count, holds, most=_MOST_EXECUTIONS, is_over=lambda: time.monotonic() >= end
    )


def _size_of(done: Execution, quantity: str) -> float:
    if quantity == "loss":
        return float(sum(float(each) for each in done.losses if each is not None))
    gradients = [gradient for _, gradient in done.gradients.values()]
    found = whole_norm(norms(gradients))
    return 0.0 if np.isnan(found) else found


def _cleared(record: StepRecord) -> Cleared | None:
    """Where the program cleared gradients between two backward passes of the step."""
    passes = record.backward_passes
    done = 0
    for event in record.events:
        if isinstance(event, BackwardPass):
            done += 1
        elif (
            isinstance(event, OutsideOp)
            and 0 < done < len(passes)
            and _clears(event, passes[done - 1])
        ):
            return Cleared(done - 1, len(passes), _source(event))
    return None


def _clears(op: OutsideOp, passed: BackwardPass) -> bool:
    """Whether ``op`` sets gradients that ``passed`` computed to None or to zero."""
    if op.name == "__set__":
        is_gradient = getattr(op.function, "__self__", None) is torch.Tensor.grad
        return is_gradient and op.args[-1] is None
    gradients = {id(kept) for _, kept in passed.parameter_gradients}
    return op.name in _CLEARING and any(id(kept) in gradients for kept in op.inputs)


def _source(op: OutsideOp) -> Source | None:
    if op.line is None:
        return None
    code, number = op.line
    text = linecache.getline(code.co_filename, number).strip()
    return Source(code.co_filename, number, code.co_name, text)


def _is_compiler_only(replayed: Replayed) -> bool:
    """Whether the step gives NaN or Inf again, bit for bit, but not when its ops are observed: all
    that differs then is that compiled code runs op by op."""
    observed = replayed.observed
    if observed is None or not replayed.is_exact:
        return False
    return is_non_finite(replayed.plain) and not is_non_finite(observed)


def _is_of_other_rank(replayed: Replayed, triggers: Sequence[Trigger]) -> bool:
    is_reduced = any(each.kind == "reduced_gradients" for each in replayed.plain.reasons)
    is_bad = triggers[0].kind == "non-finite" and triggers[0].quantity == "gradient"
    return is_reduced and is_bad and not is_non_finite(replayed.plain)


def _error_source(record: StepRecord, replayed: Replayed) -> Source | None:
    """The line of the user's code that raised; in a backward pass, the line of the forward pass
    whose gradient was being computed."""
    error = replayed.plain.error
    if error is None:
        return None
    if isinstance(replayed.plain.failed_at, BackwardPass):
        frames = _forward_frames(record)
    else:
        frames = traceback.extract_tb(error.__traceback__)
    for frame in reversed(frames):
        is_own = own_code.is_own(frame.filename) and not frame.filename.startswith(_SONDE)
        if is_own and frame.lineno is not None:
            return Source(frame.filename, frame.lineno, frame.name, frame.line or "")
    return None


def _forward_frames(record: StepRecord) -> list[traceback.FrameSummary]:
    """Torch's traceback of the forward op whose backward raises: anomaly mode has it as a warning,
    in the form in which Python prints tracebacks."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with torch.autograd.set_detect_anomaly(True, check_nan=False):
            execute(record)
    places = re.findall(r'File "(.+)", line (\d+), in (.+)', "".join(str(w.message) for w in said))
    return [
        traceback.FrameSummary(file, int(line), function, lookup_line=True)
        for file, line, function in places
    ]
