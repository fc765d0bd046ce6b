"""The questions that ``sonde replay`` answers, each by a Finding with one plain sentence."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Literal

from torch import nn

from sonde.adapters.torch.determinism.randomness import Randomness
from sonde.adapters.torch.determinism.shuffle_dropout import stop_dropout
from sonde.adapters.torch.replay.comparison import difference
from sonde.adapters.torch.replay.execution import Execution, execute
from sonde.adapters.torch.replay.questions.changed_records import (
    in_double,
    micro_batches,
    with_rows,
    without_spoiled_clipping,
)
from sonde.adapters.torch.replay.questions.outcomes import outcome_of
from sonde.adapters.torch.replay.run_again import (
    Replayed,
    batch_size,
    find_nondeterministic_op,
    run_again,
)
from sonde.adapters.torch.replay.step_record import StepRecord
from sonde.adapters.torch.replay.storage.captured_step import CapturedStep
from sonde.adapters.torch.replay.storage.compilation import compiled_again
from sonde.core.finding import Finding, Severity
from sonde.core.text.number_text import count_text, number_text
from sonde.replay.errors import ReplayError
from sonde.replay.judgement import Outcome, still_fires, unjudged_reason
from sonde.replay.manifest import StoredCompilation
from sonde.replay.reason_text import reasons_text
from sonde.replay.row_bisection import smallest_rows

Form = Literal["captured", "eager", "compiled"]


@dataclass(slots=True)
class StepReplay:
    """A captured step with its networks; each question executes it anew."""

    step: CapturedStep
    modules: Sequence[nn.Module]
    form: Form = "captured"

    def record(self, form: Form | None = None) -> StepRecord:
        """The record of the step, with its networks compiled or not as ``form`` says."""
        wanted = form or self.form
        modules = []
        for module, stored in zip(self.modules, self.step.manifest.modules, strict=True):
            is_whole = wanted == "compiled" or (wanted == "captured" and stored.is_compiled)
            settings = stored.compilation or StoredCompilation(backend="inductor")
            modules.append(
                compiled_again(
                    module,
                    settings if is_whole and stored.parameters else None,
                    stored.compiled_parts if wanted == "captured" else {},
                )
            )
        return self.step.record(modules)

    def fires(self, record: StepRecord, done: Execution) -> tuple[bool | None, Outcome]:
        """Whether the trigger fires for an execution, and what was computed."""
        outcome = outcome_of(record, done)
        return still_fires(self.step.manifest, outcome, self.step.path), outcome

    @property
    def trigger_text(self) -> str:
        trigger = self.step.manifest.trigger
        return "a loss or gradient is not finite" if trigger is None else trigger.text

    # --------------------------------------------------------------- the questions

    def is_exact(self) -> tuple[Replayed, list[Finding]]:
        """Is the step that of the training, bit for bit, and where do NaN and Inf begin?"""
        record = self.record()
        replayed = run_again(record, select_rows=with_rows)
        check_ran(replayed.plain, self.step)
        found = [_exactness(replayed)]
        if replayed.origin is not None and replayed.plain.error is None:
            found.append(replayed.origin)
        return replayed, found

    def is_deterministic(self, times: int) -> Finding:
        record = self.record()
        first = execute(record)
        check_ran(first, self.step)
        for number in range(1, times):
            differing = _first_difference(first, execute(record))
            if differing is not None:
                op = find_nondeterministic_op(record)
                where = f"; it begins at {op.name}" if op is not None else ""
                source = None if op is None or not op.sources else op.sources[0]
                return Finding(
                    "replay-not-deterministic",
                    "error",
                    f"not deterministic: execution {number + 1} of {times} differs{where}",
                    status="established",
                    op=None if op is None else op.name,
                    source=source,
                    evidence={"times": times, "differs_in": number + 1},
                )
        return Finding(
            "replay-deterministic",
            "info",
            f"deterministic: {times} executions are equal, bit for bit",
            status="established",
            evidence={"times": times},
        )

    def is_rounding(self) -> Finding:
        base = self._executed(self.record())
        other = self._executed(in_double(self.record("eager")))
        return _compared(
            "replay-float64",
            "in float64",
            base,
            other,
            too="not rounding",
            gone="rounding or overflow",
        )

    def is_compiler(self, form: Form) -> Finding:
        """Does the trigger fire in the other form, eager or compiled?"""
        base = self._executed(self.record())
        other = self._executed(self.record(form))
        stored = self.step.manifest.modules
        was_compiled = any(each.is_compiled or each.compiled_parts for each in stored)
        is_other = was_compiled == (form == "eager")
        return _compared(
            f"replay-{form}",
            "uncompiled" if form == "eager" else "compiled",
            base,
            other,
            too="not the compiler" if is_other else "",
            gone="the compiler" if is_other else "",
        )

    def is_dropout(self) -> Finding:
        base = self._executed(self.record())
        with ExitStack() as undo:
            stop_dropout(Randomness(), undo)
            other = self._executed(self.record())
        return _compared(
            "replay-no-dropout",
            "without dropout",
            base,
            other,
            too="not dropout",
            gone="dropout matters",
        )

    def needed_rows(self, most: int = 200) -> Finding:
        """Which rows of the batch suffice?"""
        record, part = self._failing_part(self.record())
        size = batch_size(record)
        if size is None:
            raise ReplayError(
                "--rows: the step has no batch: no call has a tensor with rows", slug="replay-rows"
            )

        def holds(rows: Sequence[int]) -> bool:
            changed = with_rows(record, rows)
            done = execute(changed)
            return done.error is None and self.fires(changed, done)[0] is True

        found = smallest_rows(size, holds, most=most)
        if found is None:
            check_ran(execute(record), self.step)
            raise ReplayError(
                f"--rows: the trigger does not fire when the step is executed again "
                f"({self.trigger_text}), so no rows can be found",
                slug="replay-rows",
            )
        rows = ", ".join(map(str, found.rows[:20])) + (", ..." if len(found.rows) > 20 else "")
        what = "row" if len(found.rows) == 1 else "rows"
        where = "" if part is None else f" of micro-batch {part}"
        minimal = "" if found.is_minimal else ", perhaps fewer"
        return Finding(
            "replay-rows",
            "error",
            f"{what} {rows} of {size}{where} suffice{'s' * (len(found.rows) == 1)}{minimal} "
            f"({count_text(found.executions, 'execution')})",
            status="established" if found.is_minimal else "supported",
            evidence={
                "rows": list(found.rows),
                "batch_size": size,
                "micro_batch": part,
                "is_minimal": found.is_minimal,
                "executions": found.executions,
            },
        )

    def _failing_part(self, record: StepRecord) -> tuple[StepRecord, int | None]:
        """The micro-batch for which the trigger fires, and its number; the whole step if there is
        only one or none fires alone."""
        parts = micro_batches(record)
        if len(parts) > 1:
            for number, part in enumerate(parts):
                if self.fires(part, execute(part))[0]:
                    return part, number
        return record, None

    def _executed(self, record: StepRecord) -> tuple[bool, Outcome]:
        record = without_spoiled_clipping(record)
        done = execute(record)
        check_ran(done, self.step)
        fires, outcome = self.fires(record, done)
        if fires is None:
            reason = unjudged_reason(self.step.manifest, outcome)
            raise ReplayError(
                f"the trigger ({self.trigger_text}) cannot be judged: {reason}", slug="replay-judge"
            )
        return fires, outcome


def check_ran(done: Execution, step: CapturedStep) -> None:
    """ReplayError if a step could not be executed to its end, unless it was kept for that."""
    trigger = step.manifest.trigger
    if not done.was_run:
        raise ReplayError(
            f"{step.path} cannot be executed again: {reasons_text(done.reasons)}",
            slug="step-incomplete",
        )
    error = done.error
    if error is None or (trigger is not None and trigger.kind == "exception"):
        return
    if isinstance(error, NameError):
        raise ReplayError(
            f"the network uses {error.name!r}, which the script sets in a statement that is not "
            "executed; add --run-setup, or give the network with --module "
            "package.module:function",
            slug="code-missing",
        )
    raise ReplayError(
        f"the step fails when it is executed again: {type(error).__name__}: {error}",
        slug="replay-failed",
    )


def _exactness(replayed: Replayed) -> Finding:
    done = replayed.plain
    if done.error is not None:
        return Finding(
            "replay-error",
            "error",
            f"it raises again: {type(done.error).__name__}: {done.error}",
            status="established",
        )
    evidence: dict[str, object] = {"compared": done.compared}
    evidence["reasons"] = [each.kind for each in done.reasons]
    if done.is_exact:
        return Finding(
            "replay-exact",
            "info",
            f"exact: {count_text(done.compared, 'tensor')} (outputs, losses, gradients) are those "
            "of the training, bit for bit",
            status="established",
            evidence=evidence,
            advice=_left_out(done),
        )
    if not done.differences:
        return Finding(
            "replay-not-compared",
            "warning",
            "executed, but there is nothing to compare with the training",
            status="established",
            evidence=evidence,
        )
    first = done.differences[0]
    largest = f", at most by {number_text(first.largest)}" if first.total else ""
    op = replayed.first_differing_op
    cause = (
        "; two executions here are equal, so the machine, a version or the code differs"
        if op is None
        else f"; the step is not deterministic, first at {op.name}"
    )
    evidence["differences"] = [f"{each.quantity} of {each.name}" for each in done.differences[:20]]
    return Finding(
        "replay-differs",
        "error",
        f"not exact: {len(done.differences)} of {done.compared} tensors differ from the training; "
        f"{first.quantity} of {first.name}: {first.elements:,} of {first.total:,} values"
        f"{largest}{cause}",
        status="established",
        op=None if op is None else op.name,
        source=None if op is None or not op.sources else op.sources[0],
        evidence=evidence,
        advice=_left_out(done),
    )


def _left_out(done: Execution) -> str:
    """What of the step is not executed or compared, and whose gradients are."""
    reasons = [each for each in done.reasons if each.kind != "reduced_gradients"]
    parts = [f"not all of it: {reasons_text(reasons)}"] if reasons else []
    if len(reasons) < len(done.reasons):
        parts.append(
            "gradients are those that this rank computed; the optimizer used the average over the "
            "ranks, which is kept, too"
        )
    return "; ".join(parts)


def _compared(
    rule: str,
    state: str,
    base: tuple[bool, Outcome],
    other: tuple[bool, Outcome],
    *,
    too: str,
    gone: str,
) -> Finding:
    """The answer to a question: does the trigger fire in another ``state``, too, or is it gone?"""
    fires, outcome = other
    if base[0]:
        verdict = too if fires else gone
        answer = f"{state} it happens, too" if fires else f"{state} it does not happen"
        answer = f"{verdict}: {answer}" if verdict else answer
    elif fires:
        answer = f"{state} it happens, and not as it was captured"
    else:
        answer = f"nothing to explain: it happens neither {state} nor as it was captured"
    severity: Severity = "error" if fires else "info"
    evidence: dict[str, object] = {"fires": fires, "fires_as_captured": base[0]}
    evidence |= {"loss": outcome.loss, "grad_norm": outcome.grad_norm}
    evidence |= {"loss_as_captured": base[1].loss, "grad_norm_as_captured": base[1].grad_norm}
    was = "" if base[0] else f"; as it was captured: {base[1].text()}"
    text = f"{answer} ({outcome.text()}{was})"
    return Finding(rule, severity, text, status="established", evidence=evidence)


def _first_difference(one: Execution, other: Execution) -> object | None:
    for before, now in zip(one.losses, other.losses, strict=False):
        found = difference("loss", "loss", before, now)
        if found is not None:
            return found
    for key, (_, gradient) in one.gradients.items():
        found = difference("parameter gradient", "", gradient, other.gradients[key][1])
        if found is not None:
            return found
    return None
