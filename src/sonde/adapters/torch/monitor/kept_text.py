"""What the guard says of a step that it kept: one line."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from sonde.adapters.torch.monitor.explaining import StepExplanation
from sonde.adapters.torch.monitor.going_back import WentBack
from sonde.adapters.torch.monitor.step_keeping import KeptStep
from sonde.core.graph import Source, shown_source
from sonde.core.interruption import pass_on
from sonde.core.text.number_text import count_text, scientific
from sonde.monitor.triggers import Trigger
from sonde.replay.reason_text import reasons_text

_SHOWN_ROWS = 8
_UNREMARKABLE = ("call_failed", "reduced_gradients")
"""Reasons that say nothing new: the exception is named; gradients of other ranks are not here."""


def shown_path(path: Path, started_in: Path) -> Path:
    """The path as the user would type it: relative to the directory in which the guard was started,
    unless the program has left it."""
    try:
        return path.relative_to(started_in) if Path.cwd() == started_in else path
    except (ValueError, OSError) as error:
        pass_on(error)
        return path


def kept_lines(
    what: str, triggers: Sequence[Trigger], kept: KeptStep | None, started_in: Path
) -> list[str]:
    """``what`` triggered, where it began, and where the step is; then what else went wrong."""
    if kept is None:
        return [f"{what}; nothing of the step was recorded, so it cannot be kept"]
    parts = [what, *_cause_before(kept, triggers), *_explained(kept.explanation, triggers)]
    if kept.path is not None:
        parts.append(f"kept in {shown_path(kept.path, started_in)}")
    went = kept.went_back
    if went is not None:
        parts.append(_went_back_text(went, started_in))
    elif kept.not_gone_back:
        parts.append(f"going back is not possible: {kept.not_gone_back}")
    problems = (kept.problem, "" if went is None else went.problem)
    return ["; ".join(parts), *filter(None, problems)]


def _cause_before(kept: KeptStep, triggers: Sequence[Trigger]) -> Iterator[str]:
    """What made weights non-finite before this step."""
    if triggers[0].quantity != "weight":
        return
    went = kept.went_back
    bad = kept.bad_update if went is None or went.bad_update is None else went.bad_update
    # An update computes with weights and gradients: a fault in it has no rows of a batch.
    if bad is None:
        at = _at(kept.update_source)
        yield (
            f"the update of step {triggers[0].step - 1} or code before this step wrote them, not "
            f"rows of this batch{at}"
        )
        return
    optimizer, name = bad.finding.evidence.get("optimizer"), bad.finding.parameter or "a weight"
    at = _at(bad.source or kept.update_source)
    yield (
        f"the update of step {bad.step} by {optimizer} made {name} non-finite, its gradient was "
        f"finite, so no rows of the batch are at fault{at}"
    )


def _went_back_text(went: WentBack, started_in: Path) -> str:
    inexact = "" if went.is_exact else ", not bit for bit"
    where = "" if went.path is None else f" kept in {shown_path(went.path, started_in)}"
    steps = count_text(went.steps, "step")
    return f"run again from {steps} before{inexact}, step {went.step} is{where}"


def _explained(explanation: StepExplanation, triggers: Sequence[Trigger]) -> Iterator[str]:
    replayed = explanation.replayed
    if triggers[0].quantity != "weight":  # Those are the origin themselves.
        yield from _cause(explanation, triggers[0])
    if explanation.is_of_other_rank:
        is_spike = triggers[0].kind == "spike"
        what = "below the threshold" if is_spike else "finite"
        yield f"what this rank computes is {what}: it came from another rank"
    if replayed.plain.error is not None:
        op = "" if replayed.failed_op is None else f" in {replayed.failed_op.name}"
        at = _at(explanation.error_source)
        yield f"executed again it raises{op}{at}{_rows_text(explanation)}"
    if replayed.micro_batch is not None and replayed.origin is not None:
        passes = replayed.origin.evidence.get("micro_batches")
        if isinstance(passes, int) and passes > 1:
            yield f"in micro-batch {replayed.micro_batch} of {passes}"
    for cleared in explanation.cleared:
        rows = "" if cleared.rows is None else f", all its {count_text(cleared.rows, 'row')},"
        yield (
            f"the gradients of micro-batch {cleared.number} of {cleared.passes}{rows} were cleared "
            f"before the optimizer's step{_at(cleared.source)}"
        )
    yield from _exactness(explanation)


def _cause(explanation: StepExplanation, trigger: Trigger) -> Iterator[str]:
    """Where the values that triggered come from."""
    origin = explanation.replayed.origin
    rows = _rows_text(explanation)
    if explanation.is_compiler_only:
        yield (
            f"compiled code computes NaN or Inf{rows}{_at(explanation.compiled_call)}; the same "
            "ops without the compiler do not, and 'sonde replay --compile-check' names the op"
        )
    elif origin is not None:
        is_input = origin.evidence.get("kind") == "leaf"
        given = origin.evidence.get("input")
        name = f"the input {given!r}" if given else origin.op
        if is_input and not given:
            name = "a tensor that was computed outside of the step, used"
        at = _at(origin.source)
        cause = origin.evidence.get("cause")
        why = f": {cause['text']}" if isinstance(cause, dict) else ""
        yield f"{'it was in' if is_input else 'it began at'} {name}{at}{why}{rows}"
    elif trigger.kind == "spike" and explanation.replayed.plain.was_run:
        op = explanation.extreme
        if op is not None:
            yield f"large values begin at {op.name}{_at(shown_source(op.sources))}{rows}"
        else:
            yield f"the loss is computed{_at(explanation.loss_source)}{rows}"


def _exactness(explanation: StepExplanation) -> Iterator[str]:
    replayed = explanation.replayed
    plain = replayed.plain
    if not plain.was_run:
        yield f"it cannot be executed again: {reasons_text(plain.reasons)}"
        return
    if plain.differences:
        first = plain.differences[0]
        by = "" if first.total == 0 else f" by up to {scientific(first.largest)}"
        op = replayed.first_differing_op
        where = ""
        if op is not None:
            where = f", first at {op.name}{_at(shown_source(op.sources))}"
        rows = _rows_text(explanation) if op is not None else ""
        what = f"the {first.quantity} of {first.name} differs{by}"
        yield f"the step is not deterministic{where}{rows.replace('from', 'in', 1)}: {what}"
    reasons = [each for each in plain.reasons if each.kind not in _UNREMARKABLE]
    if reasons:
        yield f"not all of it is executed again: {reasons_text(reasons)}"


def _rows_text(explanation: StepExplanation) -> str:
    rows, count = explanation.rows, explanation.row_count
    ended = ""
    if explanation.ended_after is not None:
        ended = f" (the search ended after {count_text(explanation.ended_after, 'execution')})"
    if rows and len(rows) == count and ended:
        return f", from rows that are not known{ended}"
    if not rows:
        return ", the rows of the batch are not known"
    if len(rows) == count:
        return f", from all {count_text(count, 'row')} of the batch"
    shown = ", ".join(map(str, rows[:_SHOWN_ROWS]))
    more = f" and {len(rows) - _SHOWN_ROWS} more" if len(rows) > _SHOWN_ROWS else ""
    noun = "row" if len(rows) == 1 else "rows"
    fewer = f", perhaps fewer{ended}" if ended else ""
    return f", from {noun} {shown}{more} of {count_text(count, 'row')} of the batch{fewer}"


def _at(source: Source | None) -> str:
    if source is None:
        return ""
    file = os.path.relpath(source.file) if os.path.isabs(source.file) else source.file
    place = source.file if file.startswith("..") else file
    inside = f" ({source.library_text})" if source.library is not None else ""
    code = f": {source.code.strip()}" if source.code else ""
    return f", {place}:{source.line}{inside}{code}"
