"""Dumps captured steps instead of tensors (``saved_data: "step"``), which are computed from them
when the dump is read."""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any

import torch

from sonde.adapters.torch.adapter import StepBy, ignore_warning_about_hooks
from sonde.adapters.torch.attach import (
    attach,
    current_rank,
    is_running,
    program_facts,
    running_dumps,
)
from sonde.adapters.torch.compiled.gate import CompiledMode
from sonde.adapters.torch.dump_report import not_dumped
from sonde.adapters.torch.eager.outside_step import Observed
from sonde.adapters.torch.eager.step_end import StepHooks
from sonde.adapters.torch.guard import FailureGuard
from sonde.adapters.torch.processes import observed_children
from sonde.adapters.torch.rank_lines import RankLines
from sonde.adapters.torch.replay.execution import FATAL
from sonde.adapters.torch.replay.recorder import StepRecorder
from sonde.adapters.torch.replay.step_record import GradScaling, ReplayProblem
from sonde.adapters.torch.replay.storage import collect_step
from sonde.adapters.torch.step_dump.writing import StepWriting
from sonde.adapters.torch.steps.step_numbers import StepNumbers
from sonde.capture.config import CaptureConfig
from sonde.core.errors import SondeError, UsageError
from sonde.core.finding import Finding
from sonde.core.interruption import raise_interruption
from sonde.core.observation_variables import capturing
from sonde.core.text.number_text import count_text
from sonde.core.text.problem_line import ProblemLine
from sonde.debugger.settings import DebuggerOptions
from sonde.dump.layout import STEPS, rank_layout
from sonde.dump.sinks.findings import write_findings
from sonde.dump.sinks.steps import make_room, write_metadata
from sonde.replay.reason_text import reasons_text

_log = logging.getLogger("sonde.capture")
_RUNNING: list[StepDump] = []
os.register_at_fork(after_in_child=_RUNNING.clear)


def start_capture(
    config: CaptureConfig | None,
    *,
    starts_at_once: bool,
    step_by: StepBy = "optimizer",
    debugger: DebuggerOptions | None = None,
    compiled: CompiledMode = "observe",
    observe: Collection[Observed] = (),
) -> AbstractContextManager[object]:
    """The capture that ``config`` asks for: of captured steps, or of ops (see `attach`)."""
    if config is None or config.saved_data != "step":
        return attach(
            config,
            starts_at_once=starts_at_once,
            step_by=step_by,
            debugger=debugger,
            compiled=compiled,
            observe=observe,
        )
    refused = {
        "the debugger": debugger is not None,
        "--step-by manual": step_by != "optimizer",
        "--observe": bool(observe),
        f"--compiled {compiled}": compiled != "observe",
    }
    for what, is_given in refused.items():
        if is_given:
            raise UsageError(
                f"captured steps (--as-steps, saved_data 'step') cannot be combined with {what}: "
                "only what leads to an optimizer's step is kept",
                slug="step-dump-option",
            )
    return dump_steps(config)


@contextmanager
def dump_steps(
    config: CaptureConfig,
    *,
    rank: int | None = None,
    has_other_ranks: bool = False,
    debugger: DebuggerOptions | None = None,
) -> Iterator[None]:
    """Write the selected steps of the training that runs in this block.

    ``rank``: of this process, None if the process group or the launcher says it. ``debugger`` is
    not used: children of a program get it (see ``processes``).
    """
    if _RUNNING or is_running():
        raise UsageError(
            "a capture is running already; leave its block before starting another",
            slug="capture-twice",
        )
    number = current_rank() if rank is None else rank
    dump = StepDump(config, RankLines(number, has_other_ranks))
    _RUNNING.append(dump)
    try:
        with ExitStack() as undo:
            undo.callback(dump.close)
            dump.install(undo)
            undo.enter_context(capturing())
            in_child = partial(dump_steps, config)
            undo.enter_context(observed_children(in_child, None, dump.hand_over))
            yield
    finally:
        if dump in _RUNNING:
            _RUNNING.remove(dump)


def keep_findings(findings: Sequence[Finding], steps: int, cause: Finding | None) -> None:
    """Put what a diagnosis found into the dump that is made of the training, if there is one.
    ``cause``: the finding that explains NaN and Inf."""
    for sinks in running_dumps():
        sinks.keep_findings(findings, steps, cause)
    for dump in _RUNNING:
        dump.keep_findings(findings, steps)


class StepDump:
    """Writes the steps of one process. Its hooks run in the training thread.

    Before the optimizer changes the weights, what the step needs is copied, and written in a thread
    while the training goes on. A failure is reported once and ends the dump, not the training.
    """

    def __init__(self, config: CaptureConfig, lines: RankLines) -> None:
        self._config = config
        self._lines = lines
        self._recorder = StepRecorder(
            self._failed,
            rank=lines.rank,
            closure_returned=self._closure_returned,
            step_begins=self._step_begins,
        )
        self._hooks = StepHooks(
            self._began, lambda optimizer: None, self._ended, self._elsewhere, self._skipped
        )
        self._numbers = StepNumbers(self._begin_at, lambda: self._step, self._failed)
        self._shield = FailureGuard(self._failed)
        self._layout = rank_layout(config.path, lines.rank)
        self._writing = StepWriting(self._layout.root / STEPS)
        self._step = config.initial_step
        self._kept: list[int] = []
        self._unreplayable: dict[int, list[ReplayProblem]] = {}
        self._pid = os.getpid()
        self._is_off = not config.selection.wants_rank(lines.rank)
        self._is_handed_over = False

    def install(self, undo: ExitStack) -> None:
        """Follow the training until ``undo`` is closed."""
        if self._is_off:
            return
        make_room(self._layout, self._lines)
        write_metadata(self._layout, self._config.text, program_facts())
        ignore_warning_about_hooks(undo)
        self._recorder.install(undo)
        self._hooks.install(undo)
        self._numbers.install(undo)

    def keep_findings(self, findings: Sequence[Finding], steps: int) -> None:
        """Write what a diagnosis of the training found."""
        if not self._is_off:
            write_findings(self._layout, findings, steps)

    def hand_over(self) -> None:
        """Child processes will do the training."""
        self._is_handed_over = True

    # ------------------------------------------------------------------ hooks

    def _step_begins(self) -> None:
        """The first network of a step is called."""
        if not self._is_idle and self._step in self._config.selection.steps:
            with self._shield:
                self._writing.step_begins()

    def _began(self, optimizer: torch.optim.Optimizer) -> None:
        if self._is_idle or self._hooks.depth > 1:
            return
        with self._shield:
            if self._step == self._config.initial_step:
                self._numbers.find_trainer()
            has_closure = self._hooks.closure is not None
            self._recorder.optimizer_begins(optimizer, has_closure=has_closure)
            self._writing.optimizer_begins(optimizer)
            if not has_closure:
                self._keep(optimizer, steps=True)

    def _closure_returned(self, optimizer: torch.optim.Optimizer) -> None:
        if not self._is_idle:
            with self._shield:
                self._keep(optimizer)

    def _skipped(self, optimizer: Any) -> None:
        """A GradScaler skipped the optimizer's step, which is a step all the same."""
        if self._is_idle or not isinstance(optimizer, torch.optim.Optimizer):
            return
        with self._shield:
            self._recorder.optimizer_begins(optimizer)
            self._keep(optimizer)

    def _ended(self) -> None:
        if not self._is_idle:
            with self._shield:
                self._step += 1
                self._recorder.step_ended()

    def _elsewhere(self, name: str) -> None:
        if not self._is_off:
            self._is_off = True
            self._say(
                f"an optimizer steps in thread {name!r}, whose steps are not kept: only those of "
                "the thread that started the dump are",
                slug="other-thread",
            )

    def _begin_at(self, step: int) -> None:
        if self._step == self._config.initial_step == 0 and not self._kept:
            self._step = step

    @property
    def _is_idle(self) -> bool:
        return self._is_off or os.getpid() != self._pid

    # ------------------------------------------------------------------ writing

    def _keep(self, optimizer: torch.optim.Optimizer, *, steps: bool = False) -> None:
        """Copy the step, and let a thread write it. Of an optimizer that calls its closure several
        times the first call is kept. ``steps``: with what the optimizer needs to step, too."""
        step = self._step
        if step not in self._config.selection.steps or step in self._kept[-1:]:
            return
        record = self._recorder.take(step, optimizer)
        if steps:
            self._recorder.find_owners(record)
        scaler = self._hooks.scaler
        if isinstance(scaler, torch.amp.GradScaler) and scaler.is_enabled():
            record.scaling = GradScaling(scaler, scaler.get_scale())
        fatal = [each for each in record.unreplayable if each.kind in FATAL]
        is_empty = not record.events and not record.owners
        if fatal or is_empty:
            self._unreplayable[step] = fatal
        if is_empty:
            return
        self._writing.wait()
        self._writing.write(collect_step(record, None, {}, keeps_state=steps))
        self._kept.append(step)
        if not self._config.asynchronous:
            self._writing.wait()

    # --------------------------------------------------------------------- end

    def close(self) -> None:
        """Wait for the last step, and report."""
        if os.getpid() != self._pid:
            return
        with self._shield:
            self._writing.wait()
        self._writing.close()
        if not self._config.selection.wants_rank(self._lines.rank):
            ranks = sorted(self._config.ranks or ())
            why = f"rank {self._lines.rank} is not in support_device {ranks}"
            if not self._is_handed_over:
                self._lines(not_dumped(why))
        elif self._kept:
            self._lines(
                f"sonde: {count_text(len(self._kept), 'captured step')} in {self._layout.root}; "
                "their tensors are computed when they are asked for: sonde show "
                f"{self._config.path} --step {self._kept[-1]}"
            )
        elif not self._is_off and not self._is_handed_over:
            self._lines(not_dumped("no optimizer made one of the selected steps"))
        if self._unreplayable:
            step, reasons = next(iter(self._unreplayable.items()))
            self._say(
                f"{count_text(len(self._unreplayable), 'step')} cannot be executed again, from "
                f"step {step} on: {reasons_text(reasons)}; dump tensors instead",
                slug="step-incomplete",
            )

    def _say(self, text: str, *, slug: str) -> None:
        self._lines(ProblemLine(f"sonde: {text}", slug=slug))

    def _failed(self, error: Exception) -> None:
        raise_interruption(error)
        if self._is_off:
            return
        self._is_off = True
        if isinstance(error, SondeError):
            self._lines(ProblemLine.about(error, "sonde: no more steps are kept: "))
        else:
            self._say(
                f"no more steps are kept, training goes on: {type(error).__name__}: {error}",
                slug="step-dump-failed",
            )
        _log.debug("%s", "".join(traceback.format_exception(error)))
