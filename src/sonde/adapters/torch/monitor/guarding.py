"""Guards a training: follows its steps, and acts before the optimizer if something triggers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch

from sonde.adapters.torch.adapter import ignore_warning_about_hooks
from sonde.adapters.torch.checkpoints.lineage import note_lineage
from sonde.adapters.torch.eager.step_end import StepHooks
from sonde.adapters.torch.guard import FailureGuard
from sonde.adapters.torch.monitor.reporting import GuardReport
from sonde.adapters.torch.monitor.step_judging import StepJudging
from sonde.adapters.torch.monitor.step_keeping import StepKeeper
from sonde.adapters.torch.monitor.trigger_actions import TriggerActions
from sonde.adapters.torch.processes import observed_children
from sonde.adapters.torch.steps.step_numbers import StepNumbers
from sonde.core.errors import UsageError
from sonde.core.finding import Finding
from sonde.core.interruption import is_interruption
from sonde.debugger.settings import DebuggerOptions
from sonde.dump.layout import RankLayout
from sonde.dump.sinks.findings import write_findings
from sonde.monitor.options import GuardOptions
from sonde.monitor.triggers import Trigger

_RUNNING: list[Guarding] = []
os.register_at_fork(after_in_child=_RUNNING.clear)


@contextmanager
def guard(
    options: GuardOptions,
    *,
    rank: int | None = None,
    has_other_ranks: bool = False,
    debugger: DebuggerOptions | None = None,
) -> Iterator[None]:
    """Guard the training that runs in this block; a UsageError inside another guard.

    ``rank``: of this process, None if the process group or the launcher says it. ``debugger`` is
    not used: children of a program get it (see ``processes``).
    """
    if _RUNNING:
        raise UsageError(
            "a guard is running already; leave its block before starting another",
            slug="guard-twice",
        )
    guarding = Guarding(options, rank, has_other_ranks)
    _RUNNING.append(guarding)
    try:
        with ExitStack() as undo:
            guarding.install(undo)
            in_child = partial(guard, options)
            undo.enter_context(observed_children(in_child, None, guarding.hand_over))
            try:
                yield
            except Exception as error:
                guarding.program_raised(error)
                raise
            finally:
                guarding.close()
    finally:
        if guarding in _RUNNING:
            _RUNNING.remove(guarding)


def keep_findings(findings: Sequence[Finding], steps: int) -> None:
    """Write what a diagnosis of the guarded training found beside the steps that were kept."""
    for guarding in _RUNNING:
        if guarding.options.directory.is_dir():
            write_findings(RankLayout(guarding.options.directory), findings, steps)


def is_running() -> bool:
    """Whether a guard runs."""
    return bool(_RUNNING)


def trigger(reason: str) -> None:
    """Keep the running step of the running guard; do nothing without a guard."""
    for guarding in _RUNNING:
        guarding.request(reason)


class Guarding:
    """The guard of one process. Its hooks run in the training thread.

    A failure of Sonde is reported once and ends the monitoring, not the training. A forked child
    does nothing: the files are its parent's.
    """

    def __init__(self, options: GuardOptions, rank: int | None, has_other_ranks: bool) -> None:
        self.options = options
        self._report = GuardReport(rank, has_other_ranks)
        self._shield = FailureGuard(self._report.failed)
        self._keeper = StepKeeper(
            self._report.failed,
            closure_returned=self._closure_returned,
            raised=self._step_raised,
            snapshot_every=options.snapshot_every,
            keeps_optimizer_state=options.optimizer_state,
        )
        self._judging = StepJudging(options, self._keeper, self._report)
        self._actions = TriggerActions(options, self._keeper, self._judging, self._report)
        self._hooks = StepHooks(
            self._optimizer_begins,
            self._optimizer_left,
            self._step_ended,
            self._report.steps_elsewhere,
            self._scaler_skipped,
        )
        self._numbers = StepNumbers(self._begin_at, lambda: self._step, self._report.failed)
        self._step = 0
        self._raised_step = -1
        self._is_handed_over = False

    def install(self, undo: ExitStack) -> None:
        """Follow the training until ``undo`` is closed."""
        ignore_warning_about_hooks(undo)
        note_lineage(undo)
        self._keeper.install(undo)
        self._judging.install(undo)
        self._hooks.install(undo)
        self._numbers.install(undo)

    def hand_over(self) -> None:
        """Child processes will do the training."""
        self._is_handed_over = True

    def request(self, reason: str) -> None:
        """Keep the running step."""
        self._judging.requests.add("call", reason)

    def program_raised(self, error: Exception) -> None:
        """The program ends with ``error``: keep the step in which it was raised, if one began."""
        if self._report.is_idle or is_interruption(error):
            return
        with self._shield:
            self._keeper.take(self._step, None)
            is_kept = self._raised_step == self._step and self._keeper.has_event_of(error)
            if self._keeper.has_events and not is_kept:
                self._actions.keep_exception(self._step, error)

    def close(self) -> None:
        """Report what was seen."""
        if self._report.is_forked:
            return
        self._judging.file.close()
        is_other = self._is_handed_over and not self._actions.counts.steps
        if not self._report.is_off and not is_other:
            self._actions.summarise()

    # ------------------------------------------------------------------ hooks

    def _optimizer_begins(self, optimizer: torch.optim.Optimizer) -> None:
        if self._report.is_idle or self._hooks.depth > 1:
            return
        triggers: list[Trigger] = []
        has_closure = self._hooks.closure is not None
        with self._shield:
            if not self._actions.counts.steps:
                self._numbers.find_trainer()
            self._keeper.optimizer_begins(
                self._step, optimizer, self._hooks.scaler, has_closure=has_closure
            )
            self._judging.optimizer_begins(optimizer)
            if not has_closure:
                triggers = self._judging.judged(self._step, optimizer) or self._repeated()
            self._judging.before_update(optimizer)
        if triggers:
            self._actions.act(self._step, triggers, optimizer)
        if not has_closure:
            with self._shield:
                self._keeper.before_update(self._step, optimizer)

    def _repeated(self) -> list[Trigger]:
        """Execute the step again if it is one of those that the user wants to be repeated; a
        trigger if it computes something else."""
        every = self.options.repeat_every
        signals = self._judging.signals
        if not every or self._step % every or signals is None or signals.is_skipped:
            return []
        found = self._keeper.repeat(self._step)
        signals.triggers = len(found)
        return found

    def _closure_returned(self, optimizer: torch.optim.Optimizer) -> None:
        """The optimizer has called its closure and will change the weights. LBFGS calls it several
        times in a step: the first call gives the signals, later ones are judged by NaN and Inf."""
        if self._report.is_idle or self._hooks.outermost is not optimizer:
            return
        triggers: list[Trigger] = []
        is_first = self._judging.signals is None
        with self._shield:
            self._keeper.take(self._step, optimizer)
            if is_first:
                triggers = self._judging.judged(self._step, optimizer) or self._repeated()
                self._judging.before_update(optimizer)
            else:
                triggers = self._judging.judged_again(self._step, optimizer)
        if triggers:
            self._actions.act(self._step, triggers, optimizer if is_first else None)
        with self._shield:
            if is_first:
                self._keeper.before_update(self._step, optimizer)
            else:
                self._keeper.closure_repeated(optimizer)

    def _optimizer_left(self, optimizer: torch.optim.Optimizer) -> None:
        if self._report.is_idle or self._hooks.depth:
            return
        with self._shield:
            self._actions.optimizer_left()
            self._judging.optimizer_left()
            if self._judging.signals is None:
                # The optimizer was given a closure and has not called it.
                late = self._judging.judged(self._step, optimizer)
                self._actions.known_too_late(self._step, late)
            self._judging.updated(optimizer)

    def _scaler_skipped(self, optimizer: Any) -> None:
        if self._report.is_idle or not isinstance(optimizer, torch.optim.Optimizer):
            return
        triggers: list[Trigger] = []
        with self._shield:
            self._keeper.optimizer_begins(
                self._step, optimizer, self._hooks.scaler, has_closure=False
            )
            triggers = self._judging.judged(self._step, optimizer, is_skipped=True)
            self._judging.skipped()
        if triggers:
            self._actions.act(self._step, triggers, None)

    def _step_ended(self) -> None:
        if self._report.is_idle:
            return
        with self._shield:
            self._step += 1
            self._actions.counts.steps += 1
            self._judging.step_ended()
            self._keeper.step_ended()

    def _step_raised(self, error: Exception) -> None:
        """An exception left a module or a backward pass: keep the step now. If the program handles
        it, the gradients may be others afterwards."""
        if not self._report.is_idle and not is_interruption(error):
            with self._shield:
                self._actions.keep_exception(self._step, error)
                self._raised_step = self._step

    def _begin_at(self, step: int) -> None:
        if not self._actions.counts.steps:
            self._step = step
