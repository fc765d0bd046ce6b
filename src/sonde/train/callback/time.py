"""``TimeMonitor``: how long epochs and steps take."""

from __future__ import annotations

import time

from sonde.core.callback import Callback, RunContext
from sonde.train.validator import check_positive_int


class TimeMonitor(Callback):
    """Prints the time of each epoch and the mean time of its steps, in milliseconds.

    ``data_size`` is the number of steps to divide by (default: those the epoch had). With
    ``data_time=True`` the shortest, longest and mean wait for a batch is added. Waiting for an
    asynchronous device is not included except where something else waits for it.
    """

    def __init__(self, data_size: int | None = None, data_time: bool = False) -> None:
        if data_size is not None:
            check_positive_int(data_size, "data_size", "TimeMonitor")
        self._data_size = data_size
        self._data_time = data_time
        self._epoch_started = self._waiting_since = 0.0
        self._waits: list[float] = []
        self._steps = 0

    def epoch_begin(self, run_context: RunContext) -> None:
        self._epoch_started = self._waiting_since = time.perf_counter()
        self._waits = []
        self._steps = 0

    def step_begin(self, run_context: RunContext) -> None:
        if self._data_time:
            self._waits.append(time.perf_counter() - self._waiting_since)

    def step_end(self, run_context: RunContext) -> None:
        self._steps += 1
        self._waiting_since = time.perf_counter()

    def epoch_end(self, run_context: RunContext) -> None:
        milliseconds = (time.perf_counter() - self._epoch_started) * 1000
        mode = str(run_context.original_args().get("mode", "train")).title()
        per_step = milliseconds / (self._data_size or max(self._steps, 1))
        line = f"{mode} epoch time: {milliseconds:5.3f} ms, per step time: {per_step:5.3f} ms"
        if self._waits:
            waits = [wait * 1000 for wait in self._waits]
            line += (
                f" (data time: min {min(waits):.3f} ms, max {max(waits):.3f} ms, "
                f"avg {sum(waits) / len(waits):.3f} ms)"
            )
        print(line, flush=True)
