"""Measures each step, judges it, and writes its signals to the file."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import numpy as np
import numpy.typing as npt
import torch

from sonde.adapters.torch.debugging.loss import LossWatch
from sonde.adapters.torch.debugging.signals.meter import Meter
from sonde.adapters.torch.monitor.batch_hash import batch_hash
from sonde.adapters.torch.monitor.parameter_names import ParameterColumns
from sonde.adapters.torch.monitor.reporting import GuardReport
from sonde.adapters.torch.monitor.requests import Requests
from sonde.adapters.torch.monitor.signal_file import SignalFile
from sonde.adapters.torch.monitor.step_keeping import StepKeeper
from sonde.monitor.judge import Judge
from sonde.monitor.options import GuardOptions
from sonde.monitor.signals import Signals
from sonde.monitor.subscribers import tell_signals
from sonde.monitor.triggers import Trigger


class StepJudging:
    """The signals of the running step, and the triggers that follow from them.

    ``signals`` are None until the step of an optimizer is judged. Used from the training thread;
    ``requests`` may be added to in any thread.
    """

    def __init__(self, options: GuardOptions, keeper: StepKeeper, report: GuardReport) -> None:
        self._keeper = keeper
        self._judge = Judge(options.triggers)
        self._closure_judge = Judge(finds_spikes=False)
        self._meter = Meter(self._know)
        self._loss = LossWatch()
        self._backward_passes = 0
        self.columns = ParameterColumns()
        self.file = SignalFile(options.directory, lambda: report.rank, report.say)
        self.requests = Requests()
        self.signals: Signals | None = None

    def install(self, undo: ExitStack) -> None:
        """Follow losses and requests until ``undo`` is closed."""
        # The recorder hands on exceptions of backward passes.
        self._loss.install(self._backward_begins, lambda error: None, undo)
        self.requests.install(undo)

    def optimizer_begins(self, optimizer: torch.optim.Optimizer) -> None:
        self.signals = None  # An optimizer that raised has left its own.
        self._loss.optimizer_begins(optimizer)

    def judged(
        self, step: int, optimizer: torch.optim.Optimizer, *, is_skipped: bool = False
    ) -> list[Trigger]:
        """Measure and judge the step, and write its signals; returns its triggers."""
        signals = self._meter.measure(step, optimizer, self._loss.take())
        signals.is_skipped |= is_skipped
        signals.micro_batches = max(self._backward_passes, self._keeper.passes, 1)
        signals.lost_passes = self._keeper.lost_passes(optimizer)
        self._backward_passes = 0
        scale = self._keeper.loss_scale
        if scale is not None:
            signals.loss_scale = scale
        signals.batch_hash = batch_hash(self._keeper.batch())
        triggers = self._judge.judge(signals, self.columns.names)
        triggers += self.requests.take(step)
        signals.triggers = len(triggers)
        self.signals = signals
        self.file.write(signals)
        return triggers

    def judged_again(self, step: int, optimizer: torch.optim.Optimizer) -> list[Trigger]:
        """Judge a later call of a closure in the same step, by NaN and Inf."""
        if self.signals is None or self.signals.triggers:
            return []
        again = self._meter.measure(step, optimizer, None)
        triggers = self._closure_judge.judge(again, self.columns.names)
        self.signals.triggers = len(triggers)
        return triggers

    def before_update(self, optimizer: torch.optim.Optimizer) -> None:
        self._meter.before_update(optimizer)

    def optimizer_left(self) -> None:
        self._loss.optimizer_left()

    def updated(self, optimizer: torch.optim.Optimizer) -> None:
        """The optimizer has changed the weights: complete the signals."""
        if self.signals is not None:
            self._meter.after_update(optimizer, self.signals)
            self._judge.updated(self.signals)
            self._keeper.after_update(optimizer, self.signals, self.columns)
            self.file.write(self.signals)

    def skipped(self) -> None:
        """A GradScaler skipped the update: complete the signals."""
        if self.signals is not None:
            self._meter.step_ended(self.signals)
            self.file.write(self.signals)

    def step_ended(self) -> None:
        if self.signals is not None:
            tell_signals(self.signals)
        self.signals = None
        self._loss.take()

    def _backward_begins(self) -> None:
        self._backward_passes += 1
        self._loss.keep_few()

    def _know(self, parameters: Sequence[torch.Tensor]) -> npt.NDArray[np.intp]:
        """The columns of these parameters; new ones are added to the file."""
        self.file.know(self.columns.add(parameters, self._keeper.modules()))
        return self.columns.of(parameters)
