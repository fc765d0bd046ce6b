"""Which line of the user's code the training thread is at, looked at now and then.

Python code that runs no op leaves nothing in torch's profile; this is how it gets a place.
"""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass

from sonde.core.graph import Source
from sonde.profile.places import Places

PERIOD_SECONDS = 0.004


@dataclass(frozen=True, slots=True)
class Sample:
    """At ``time`` (``perf_counter_ns``) the thread was at ``source``; None: in no user's code."""

    time: int
    source: Source | None


class Sampler:
    """A thread that looks at another one while it is on.

    ``start`` and ``stop`` are called from the thread that is looked at; ``samples`` is read after
    ``stop``. The looking thread holds the interpreter for some microseconds every period.
    """

    def __init__(self, places: Places, period_seconds: float = PERIOD_SECONDS) -> None:
        self.samples: list[Sample] = []
        self._places = places
        self._period = period_seconds
        self._target = threading.get_ident()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if self._thread is None:
            self._stop.clear()
            self._thread = threading.Thread(target=self._run, name="sonde-sampler", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        if self._thread is not None:
            self._stop.set()
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while not self._stop.wait(self._period):
            frame = sys._current_frames().get(self._target)
            source = self._places.innermost(frame)
            self.samples.append(Sample(time.perf_counter_ns(), source))
