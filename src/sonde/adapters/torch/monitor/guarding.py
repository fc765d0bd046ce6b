"""Guards a training: measures each step, and acts before the optimizer if something triggers."""

from __future__ import annotations

import logging
import os
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from textwrap import shorten
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sonde.adapters.torch.adapter import ignore_warning_about_hooks
from sonde.adapters.torch.attach import current_rank
from sonde.adapters.torch.debug_calls import stop_here
from sonde.adapters.torch.debugging.loss import LossWatch
from sonde.adapters.torch.eager.step_end import StepHooks
from sonde.adapters.torch.guard import FailureGuard
from sonde.adapters.torch.monitor.batch_hash import batch_hash
from sonde.adapters.torch.monitor.kept_text import kept_lines, shown_path
from sonde.adapters.torch.monitor.meter import Meter
from sonde.adapters.torch.monitor.parameter_names import ParameterColumns
from sonde.adapters.torch.monitor.requests import Requests
from sonde.adapters.torch.monitor.signal_file import SignalFile
from sonde.adapters.torch.monitor.skipping import withhold_gradients
from sonde.adapters.torch.monitor.step_keeping import StepKeeper
from sonde.adapters.torch.processes import observed_children
from sonde.adapters.torch.rank_lines import RankLines
from sonde.adapters.torch.step_numbers import StepNumbers
from sonde.core.errors import UsageError
from sonde.core.interruption import is_interruption
from sonde.core.running_training import step_text
from sonde.core.text.problem_line import ProblemLine
from sonde.debugger.settings import DebuggerOptions
from sonde.monitor import GuardStopped
from sonde.monitor.counting import TriggerCounts, summary_lines
from sonde.monitor.judge import Judge
from sonde.monitor.options import GuardOptions
from sonde.monitor.signals import Signals
from sonde.monitor.triggers import Trigger, trigger_text

_log = logging.getLogger("sonde.capture")
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


def is_running() -> bool:
    """Whether a guard runs."""
    return bool(_RUNNING)


def trigger(reason: str) -> None:
    """Keep the running step of the running guard; do nothing without a guard."""
    for guarding in _RUNNING:
        guarding.requests.add("call", reason)


class Guarding:
    """The guard of one process. Its hooks run in the training thread.

    A failure of Sonde is reported once and ends the monitoring, not the training. A forked child
    does nothing: the files are its parent's.
    """

    def __init__(self, options: GuardOptions, rank: int | None, has_other_ranks: bool) -> None:
        self._options = options
        self._rank = rank
        self._has_other_ranks = has_other_ranks
        self._lines: RankLines | None = None
        self._judge = Judge(options.triggers)
        self._closure_judge = Judge(finds_spikes=False)
        self._counts = TriggerCounts(options.keep)
        self._loss = LossWatch()
        self._columns = ParameterColumns()
        self._meter = Meter(self._know)
        self._keeper = StepKeeper(
            self._failed,
            closure_returned=self._closure_returned,
            raised=self._step_raised,
            snapshot_every=options.snapshot_every,
        )
        self._hooks = StepHooks(
            self._optimizer_begins,
            self._optimizer_left,
            self._step_ended,
            self._elsewhere,
            self._scaler_skipped,
        )
        self._numbers = StepNumbers(self._begin_at, lambda: self._step, self._failed)
        self._shield = FailureGuard(self._failed)
        self._file = SignalFile(options.directory, lambda: self.rank, self._say)
        self._signals: Signals | None = None
        self._restore_gradients: ExitStack | None = None
        self._step = 0
        self._raised_step = -1
        self._backward_passes = 0
        self._pid = os.getpid()
        self._thread = threading.get_ident()
        self._is_off = False
        self._is_handed_over = False
        self.requests = Requests()

    def install(self, undo: ExitStack) -> None:
        """Follow the training until ``undo`` is closed."""
        ignore_warning_about_hooks(undo)
        self._keeper.install(undo)
        self._loss.install(self._backward_begins, self._backward_failed, undo)
        self._hooks.install(undo)
        self._numbers.install(undo)
        self.requests.install(undo)

    def hand_over(self) -> None:
        """Child processes will do the training."""
        self._is_handed_over = True

    # ------------------------------------------------------------------ hooks

    def _optimizer_begins(self, optimizer: torch.optim.Optimizer) -> None:
        if self._is_idle or self._hooks.depth > 1:
            return
        triggers: list[Trigger] = []
        self._signals = None  # An optimizer that raised has left its own.
        with self._shield:
            if not self._counts.steps:
                self._numbers.find_trainer()
            closure = self._hooks.closure
            self._keeper.optimizer_begins(
                self._step, optimizer, self._hooks.scaler, has_closure=closure is not None
            )
            self._loss.optimizer_begins(optimizer)
            if closure is None:
                triggers = self._judged(optimizer)
            self._meter.before_update(optimizer)
        if triggers:
            self._act(triggers, optimizer)
        with self._shield:
            self._keeper.before_update(self._step, optimizer)

    def _closure_returned(self, optimizer: torch.optim.Optimizer) -> None:
        """The optimizer has called its closure and will change the weights. LBFGS calls it several
        times in a step: the first call gives the signals, later ones are judged by NaN and Inf."""
        if self._is_idle or self._hooks.depth != 1:
            return
        triggers: list[Trigger] = []
        is_first = self._signals is None
        with self._shield:
            self._keeper.take(self._step, optimizer)
            if is_first:
                triggers = self._judged(optimizer)
                self._meter.before_update(optimizer)
            elif self._signals is not None and not self._signals.triggers:
                signals = self._meter.measure(self._step, optimizer, None)
                triggers = self._closure_judge.judge(signals, self._columns.names)
                self._signals.triggers = len(triggers)
        if triggers:
            self._act(triggers, optimizer if is_first else None)

    def _optimizer_left(self, optimizer: torch.optim.Optimizer) -> None:
        if self._is_idle or self._hooks.depth:
            return
        with self._shield:
            if self._restore_gradients is not None:
                self._restore_gradients.close()
                self._restore_gradients = None
            self._loss.optimizer_left()
            if self._signals is None:
                # The optimizer was given a closure and has not called it. Weights are those after
                # the update.
                late = [each for each in self._judged(optimizer) if each.quantity != "weight"]
                if late and self._counts.wants(self._step, late):
                    what = f"{step_text(self._step)}: {trigger_text(late[0])}"
                    self._say(f"{what}; known after the update only, so the step is not kept")
            if self._signals is not None:
                self._meter.after_update(optimizer, self._signals)
                self._judge.updated(self._signals)
                self._keeper.after_update(optimizer, self._signals, self._columns)
                self._file.write(self._signals)

    def _scaler_skipped(self, optimizer: Any) -> None:
        if self._is_idle or not isinstance(optimizer, torch.optim.Optimizer):
            return
        triggers: list[Trigger] = []
        with self._shield:
            self._keeper.optimizer_begins(
                self._step, optimizer, self._hooks.scaler, has_closure=False
            )
            triggers = self._judged(optimizer, is_skipped=True)
            if self._signals is not None:
                self._meter.step_ended(self._signals)
                self._file.write(self._signals)
        if triggers:
            self._act(triggers, None)

    def _step_ended(self) -> None:
        if self._is_idle:
            return
        with self._shield:
            self._step += 1
            self._counts.steps += 1
            self._signals = None
            self._loss.take()
            self._keeper.step_ended()

    def _backward_begins(self) -> None:
        self._backward_passes += 1
        self._loss.keep_few()

    def _backward_failed(self, error: Exception) -> None:
        """The recorder hands it to `_step_raised`."""

    def _step_raised(self, error: Exception) -> None:
        """An exception left a module or a backward pass: keep the step now. If the program handles
        it, the gradients may be others afterwards."""
        if not self._is_idle and not is_interruption(error):
            with self._shield:
                self._keep_exception(error)
                self._raised_step = self._step

    def _elsewhere(self, name: str) -> None:
        if not self._is_off:
            self._is_off = True
            self._say(
                ProblemLine(
                    f"an optimizer steps in thread {name!r}, which is not guarded: only the thread "
                    "that started the guard is",
                    slug="other-thread",
                )
            )

    def program_raised(self, error: Exception) -> None:
        """The program ends with ``error``: keep the step in which it was raised, if one began."""
        if self._is_idle or is_interruption(error):
            return
        with self._shield:
            self._keeper.take(self._step, None)
            is_kept = self._raised_step == self._step and self._keeper.has_event_of(error)
            if self._keeper.has_events and not is_kept:
                self._keep_exception(error)

    def _keep_exception(self, error: Exception) -> None:
        self._keeper.take(self._step, None)
        text = shorten(f"{type(error).__name__}: {error}", 200, placeholder=" ...")
        found = Trigger("exception", self._step, text=text)
        if self._counts.wants(self._step, [found]):
            signals = Signals(self._step, time=time.time(), has_loss=False)
            signals.triggers = 1
            self._file.write(signals)
            self._keep([found], signals)

    @property
    def _is_idle(self) -> bool:
        return self._is_off or os.getpid() != self._pid

    # --------------------------------------------------------------- judging

    def _judged(
        self,
        optimizer: torch.optim.Optimizer,
        *,
        is_skipped: bool = False,
    ) -> list[Trigger]:
        """Measure and judge the step, and write its signals; returns its triggers."""
        signals = self._meter.measure(self._step, optimizer, self._loss.take())
        signals.is_skipped |= is_skipped
        signals.micro_batches = max(self._backward_passes, 1)
        self._backward_passes = 0
        scale = self._keeper.loss_scale
        if scale is not None:
            signals.loss_scale = scale
        signals.batch_hash = batch_hash(self._keeper.batch())
        triggers = self._judge.judge(signals, self._columns.names)
        triggers += self.requests.take(self._step)
        signals.triggers = len(triggers)
        self._signals = signals
        self._file.write(signals)
        return triggers

    def _act(self, triggers: Sequence[Trigger], optimizer: torch.optim.Optimizer | None) -> None:
        """Keep the step if it is to be kept, then do what the user chose. May raise GuardStopped,
        or what the debugger raises when the user ends the training."""
        signals = self._signals
        with self._shield:
            if self._counts.wants(self._step, triggers) and signals is not None:
                self._keep(triggers, signals)
        action = self._options.on_trigger
        what = f"{step_text(self._step)}: {trigger_text(triggers[0])}"
        if all(each.kind in ("call", "signal") for each in triggers):
            return  # The user wants to have the step, not to change the training.
        if action == "stop":
            raise GuardStopped(what)
        if action == "pause" and not self._counts.is_repeated:
            stop_here(trigger_text(triggers[0]), step=self._step)
        elif action == "skip" and optimizer is not None and signals is not None:
            with self._shield:
                signals.is_skipped = True
                self._restore_gradients = withhold_gradients(optimizer)

    def _keep(self, triggers: Sequence[Trigger], signals: Signals) -> None:
        """Execute the step again, write it, and say what was found."""
        what = f"{step_text(self._step)}: {trigger_text(triggers[0])}"
        kept = self._keeper.keep(
            self.rank, triggers, signals, self._columns, self._options.directory
        )
        if kept is not None:
            self._counts.kept += map(shown_path, kept.paths(triggers))
            self._counts.kept_steps += kept.path is not None
        for line in kept_lines(what, triggers, kept):
            self._say(line)

    def _know(self, parameters: Sequence[torch.Tensor]) -> npt.NDArray[np.intp]:
        """The columns of these parameters; new ones are added to the file."""
        self._file.know(self._columns.add(parameters, self._keeper.modules()))
        return self._columns.of(parameters)

    # -------------------------------------------------------------------- end

    @property
    def rank(self) -> int:
        """The rank of this process, which a process group may say only when the training runs."""
        if self._rank is None:
            self._rank = current_rank()
        return self._rank

    def close(self) -> None:
        """Report what was seen."""
        if os.getpid() != self._pid:
            return
        self._file.close()
        if self._is_off or (self._is_handed_over and not self._counts.steps):
            return
        directory = shown_path(self._options.directory)
        for line in summary_lines(self._counts, directory, has_file=not self._file.is_broken):
            self._say(line)

    def _say(self, text: str) -> None:
        if self._lines is None:
            self._lines = RankLines(self.rank, self._has_other_ranks)
        start = "sonde: "
        self._lines(text.with_start(start) if isinstance(text, ProblemLine) else f"{start}{text}")

    def _begin_at(self, step: int) -> None:
        if not self._counts.steps:
            self._step = step

    def _failed(self, error: Exception) -> None:
        if is_interruption(error):
            raise error
        if self._is_off:
            return
        self._is_off = True
        trace = traceback.extract_tb(error.__traceback__)
        place = f" ({os.path.basename(trace[-1].filename)}:{trace[-1].lineno})" if trace else ""
        self._say(
            ProblemLine(
                f"the guard failed and is switched off, training goes on: {type(error).__name__}: "
                f"{error}{place}",
                slug="guard-failed",
            )
        )
        _log.debug("%s", "".join(traceback.format_exception(error)))
