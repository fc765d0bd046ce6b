"""Measures loss, learning rate, gradients and updates of the steps whose statistics are dumped."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from sonde.adapters.torch import private
from sonde.adapters.torch.adapter import TorchAdapter
from sonde.adapters.torch.debugging.loss import LossWatch
from sonde.adapters.torch.debugging.signals.meter import Meter
from sonde.adapters.torch.eager.step_end import StepHooks
from sonde.adapters.torch.guard import FailureGuard
from sonde.adapters.torch.replay.recording.closures import watch_closures
from sonde.core.interruption import raise_interruption
from sonde.core.text.problem_line import ProblemLine
from sonde.dump.sinks.statistic_parquet import StatisticParquet
from sonde.dump.statistic_store.op_table import layer_of
from sonde.monitor.ring_format import MOST_PARAMETERS
from sonde.monitor.signal_rows import SignalRows
from sonde.monitor.signals import Signals

_MOST_SEARCHES: Final = 3
"""Steps in which the name of a parameter is searched among the modules, which takes time."""


class DumpSignals:
    """Adds to each step of ``statistics`` the signals that a guard monitors, with its meter.

    Its hooks run in the training thread, before those of the adapter, which end the step. Steps
    that are not observed are not measured. Of several optimizers in one step, as ``sonde.step()``
    may end it, the last counts. After a failure of Sonde the dump goes on without signals.
    """

    def __init__(
        self, adapter: TorchAdapter, statistics: StatisticParquet, report: Callable[[str], None]
    ) -> None:
        self._adapter = adapter
        self._report = report
        self._rows = SignalRows(statistics.ops, ["update"])
        self._meter = Meter(self._know)
        self._loss = LossWatch()
        self._shield = FailureGuard(self._failed)
        self._hooks = StepHooks(
            self._optimizer_begins,
            self._optimizer_left,
            self._step_ended,
            lambda thread: None,
            self._scaler_skipped,
        )
        self._columns: dict[str, int] = {}
        self._unnamed: Counter[int] = Counter()
        self._backward_passes = 0
        self._signals: Signals | None = None
        self._is_off = False
        self._pid = os.getpid()
        statistics.signals = self._rows_of

    def install(self, undo: ExitStack) -> None:
        """Follow the training until ``undo`` is closed."""
        # Before the hooks: they see the closure that is called.
        watch_closures(lambda optimizer: None, self._closure_returned, undo)
        self._hooks.install(undo)
        self._loss.install(self._backward_begins, lambda error: None, undo)

    def _rows_of(self, step: int) -> tuple[Sequence[int], bytes] | None:
        """The rows of the step that ends."""
        signals, self._signals = self._signals, None
        return None if signals is None or signals.step != step else self._rows.of(signals)

    # ------------------------------------------------------------------ hooks

    @property
    def _is_idle(self) -> bool:
        return self._is_off or os.getpid() != self._pid or not self._adapter.is_observing

    def _backward_begins(self) -> None:
        self._backward_passes += 1
        self._loss.keep_few()

    def _optimizer_begins(self, optimizer: torch.optim.Optimizer) -> None:
        if self._hooks.depth > 1:
            return
        with self._shield:
            self._signals = None  # An optimizer that raised has left its own.
            self._loss.optimizer_begins(optimizer)
            if self._hooks.closure is None and not self._is_idle:
                self._measure(optimizer)

    def _closure_returned(self, optimizer: torch.optim.Optimizer) -> None:
        """The optimizer will change the weights. LBFGS calls its closure several times: the first
        call gives the signals."""
        with self._shield:
            if self._signals is None and not self._is_idle:
                self._measure(optimizer)

    def _measure(self, optimizer: torch.optim.Optimizer) -> None:
        signals = self._meter.measure(self._adapter.step, optimizer, self._loss.take())
        signals.micro_batches = max(self._backward_passes, 1)
        scaler = self._hooks.scaler
        if isinstance(scaler, torch.amp.GradScaler) and scaler.is_enabled():
            signals.loss_scale = scaler.get_scale()
        self._signals = signals
        self._meter.before_update(optimizer)

    def _optimizer_left(self, optimizer: torch.optim.Optimizer) -> None:
        if self._hooks.depth:
            return
        with self._shield:
            self._loss.optimizer_left()
            if self._signals is not None and not self._is_idle:
                self._meter.after_update(optimizer, self._signals)

    def _scaler_skipped(self, optimizer: Any) -> None:
        if self._is_idle or not isinstance(optimizer, torch.optim.Optimizer):
            return
        with self._shield:
            self._measure(optimizer)
            if self._signals is not None:
                self._signals.is_skipped = True
                self._meter.step_ended(self._signals)

    def _step_ended(self) -> None:
        with self._shield:
            self._loss.forget()
            self._backward_passes = 0
            if self._signals is None:
                self._meter.step_passed()

    # -------------------------------------------------------------- parameters

    def _know(self, parameters: Sequence[torch.Tensor]) -> npt.NDArray[np.intp]:
        """The columns of these parameters; -1 for those without a name, and beyond the most."""
        return np.array([self._column(each) for each in parameters], np.intp)

    def _column(self, parameter: torch.Tensor) -> int:
        key = private.tensor_id(parameter)
        if self._unnamed[key] >= _MOST_SEARCHES:
            return -1
        named = self._adapter.parameter_name(parameter)
        if named is None:
            self._unnamed[key] += 1
            return -1
        name, scope = named
        known = self._columns.get(name)
        if known is None and len(self._columns) < MOST_PARAMETERS:
            known = self._columns[name] = len(self._columns)
            self._rows.know([(name, layer_of(scope))])
        return -1 if known is None else known

    def _failed(self, error: Exception) -> None:
        """Go on without signals after an exception of Sonde's own code; raise others again."""
        raise_interruption(error)
        self._is_off, self._signals = True, None
        text = (
            "sonde: the signals of the steps cannot be measured, the dump goes on without them: "
            f"{type(error).__name__}: {error}"
        )
        self._report(ProblemLine(text, slug="signals-not-written"))
