"""Samples which line of the user's code the training thread executes.

Python code that runs no op leaves no event in torch's profile; sampling finds its line.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from types import FrameType
from typing import Literal

from sonde.core.graph import Source
from sonde.core.interruption import start_thread
from sonde.core.threads.thread_event import ThreadEvent
from sonde.profile.places import Places

PERIOD_SECONDS = 0.001

Activity = Literal["data", "network", "loop"]

# Functions of torch inside which the training thread waits for data, or trains the network.
_ENTRY_POINTS: dict[tuple[str, str], Activity] = {
    ("/utils/data/dataloader.py", "__next__"): "data",
    ("/nn/modules/module.py", "_call_impl"): "network",
    ("/autograd/graph.py", "_engine_run_backward"): "network",
    ("/optim/optimizer.py", "wrapper"): "network",
}


@dataclass(frozen=True, slots=True)
class Sample:
    """What the thread executed; ``source`` is None if no user code is on its stack."""

    source: Source | None
    activity: Activity


class Sampler:
    """A thread that samples the stack of the thread that created this object.

    ``start`` and ``stop`` are called from the sampled thread; ``samples`` is read after ``stop``.
    A sample holds the interpreter lock for some microseconds, or longer on a busy machine, so
    steps that are timed are not sampled.
    """

    def __init__(self, places: Places) -> None:
        self.samples: list[Sample] = []
        self._places = places
        self._target = threading.get_ident()
        self._stop = ThreadEvent()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if self._thread is None:
            self._stop.clear()
            self._thread = threading.Thread(target=self._run, name="sonde-sampler", daemon=True)
            start_thread(self._thread)

    def stop(self) -> None:
        if self._thread is not None:
            self._stop.set()
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while not self._stop.wait(PERIOD_SECONDS):
            frame = sys._current_frames().get(self._target)
            self.samples.append(Sample(self._places.innermost(frame), _activity(frame)))


def shares(samples: Iterable[Sample], activity: Activity) -> dict[Source, float]:
    """The share of an activity's samples at each line; the sum is at most 1."""
    chosen = [sample.source for sample in samples if sample.activity == activity]
    counts = Counter(source for source in chosen if source is not None)
    return {source: count / len(chosen) for source, count in counts.items()}


def _activity(frame: FrameType | None) -> Activity:
    while frame is not None:
        code = frame.f_code
        for (file, function), activity in _ENTRY_POINTS.items():
            if code.co_name == function and code.co_filename.endswith(file):
                return activity
        frame = frame.f_back
    return "loop"
