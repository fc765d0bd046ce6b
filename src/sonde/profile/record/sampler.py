"""Which line of the user's code the training thread is at, looked at now and then.

Python code that runs no op leaves nothing in torch's profile; this is how it gets a place.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Literal

from sonde.core.graph import Source
from sonde.profile.places import Places

PERIOD_SECONDS = 0.001

Doing = Literal["data", "network", "loop"]

# Functions of torch below which the training thread waits for data, or trains the network.
_ENTRANCES: dict[tuple[str, str], Doing] = {
    ("utils/data/dataloader.py", "__next__"): "data",
    ("nn/modules/module.py", "_call_impl"): "network",
    ("autograd/graph.py", "_engine_run_backward"): "network",
    ("optim/optimizer.py", "wrapper"): "network",
}


@dataclass(frozen=True, slots=True)
class Sample:
    """Where the thread was; None: in no user's code. ``doing`` is read from its stack."""

    source: Source | None
    doing: Doing


class Sampler:
    """A thread that looks at another one while it is on.

    ``start`` and ``stop`` are called from the thread that is looked at; ``samples`` is read after
    ``stop``. Looking takes the interpreter away for some microseconds every period, or longer on a
    busy machine: not for steps that are timed.
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
            self.samples.append(Sample(self._places.innermost(frame), _doing(frame)))


def shares(samples: Iterable[Sample], doing: Doing) -> dict[Source, float]:
    """How much of the samples of one kind is at each line; together at most 1."""
    chosen = [sample for sample in samples if sample.doing == doing]
    found: dict[Source, float] = {}
    for sample in chosen:
        if sample.source is not None:
            found[sample.source] = found.get(sample.source, 0.0) + 1 / len(chosen)
    return found


def _doing(frame: FrameType | None) -> Doing:
    while frame is not None:
        entrance = _entrance(frame.f_code)
        if entrance is not None:
            return entrance
        frame = frame.f_back
    return "loop"


def _entrance(code: CodeType) -> Doing | None:
    for (file, function), doing in _ENTRANCES.items():
        if code.co_name == function and code.co_filename.endswith(f"{os.sep}{file}"):
            return doing
    return None
