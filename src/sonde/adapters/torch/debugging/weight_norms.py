"""Measures gradients, weights and updates of every step for the debugger."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch

from sonde.adapters.torch.debugging.held_tensors import TorchHeld
from sonde.adapters.torch.debugging.signals.meter import Meter
from sonde.debugger.debugger import Debugger, WeightNorms
from sonde.monitor.ring_format import MOST_PARAMETERS
from sonde.monitor.signals import Signals


class WeightMeter:
    """Measures the parameters of an optimizer when it steps, with the meter of the guard, and
    reports them under the names that the debugger has for them. Used from the training thread."""

    def __init__(self, debugger: Debugger) -> None:
        self._debugger = debugger
        self._held: Mapping[int, TorchHeld] = {}
        self._columns: dict[str, int] = {}
        self._meter = Meter(self._know)
        self._signals: Signals | None = None
        self._seconds = 0.0

    def before_update(
        self, optimizer: torch.optim.Optimizer, held: Mapping[int, TorchHeld]
    ) -> None:
        """``optimizer`` is about to change the weights; ``held`` has their names."""
        if not self._debugger.measures_weights:
            return
        began = time.perf_counter()
        self._held = held
        self._signals = self._meter.measure(0, optimizer, None)
        self._meter.before_update(optimizer)
        self._seconds = time.perf_counter() - began

    def after_update(self, optimizer: torch.optim.Optimizer) -> None:
        """``optimizer`` has changed the weights: report them, unless it has no known ones."""
        signals, self._signals = self._signals, None
        if signals is None:
            return
        began = time.perf_counter()
        self._meter.after_update(optimizer, signals)
        norms: WeightNorms = (signals.gradients, signals.weights, signals.updates)
        seconds = self._seconds + time.perf_counter() - began
        if signals.weights.size:
            self._debugger.weights_measured(
                seconds, tuple(self._columns), norms, signals.learning_rate
            )

    def _know(self, parameters: Sequence[torch.Tensor]) -> npt.NDArray[np.intp]:
        """The columns of these parameters; -1 for those without a name, and beyond the most."""
        found = []
        for parameter in parameters:
            held = self._held.get(id(parameter))
            if held is None or len(self._columns) >= MOST_PARAMETERS:
                found.append(-1)
            else:
                found.append(self._columns.setdefault(held.name, len(self._columns)))
        return np.array(found, np.intp)
