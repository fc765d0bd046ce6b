"""Times every step, and profiles the steps of the window.

Outside the window a step costs two reads of the clock. The profiler is started and stopped between
two steps, never inside one; that time belongs to no step.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from contextlib import suppress

import torch

from sonde.core.errors import SondeError
from sonde.core.graph import Graph
from sonde.core.text.problem_line import ProblemLine
from sonde.profile.places import Places
from sonde.profile.record import private
from sonde.profile.record.object_tracking import ObjectTracker
from sonde.profile.record.sampler import Sampler
from sonde.profile.record.torch_profiler import ProfilerSession, TorchProfiler, mark_range
from sonde.profile.record.window import StepWindow

# Roughly what recording memory costs an op, and the share of a step that it may cost.
_MEMORY_SECONDS_PER_OP = 0.3e-6
_MEMORY_SHARE = 0.03


class WindowDone(BaseException):
    """Ends the program after its window, if the user asked for that; not an error."""


class ProfileRecorder:
    """Records the steps of ``window``; methods are called from the training thread.

    `learned` passes the ops of the step that `names_step` asks for. ``say`` prints a line. With
    ``stops``, `WindowDone` ends the program after the window. Memory is recorded with
    ``wants_memory``, and where that costs a step little.
    """

    def __init__(
        self,
        window: StepWindow,
        places: Places,
        *,
        stops: bool,
        wants_memory: bool,
        say: Callable[[str], None],
    ) -> None:
        self.window = window
        self.tracker = ObjectTracker(places)
        self.sampler = Sampler(places)
        self.graph: Graph | None = None
        self.session: ProfilerSession | None = None
        self.begins: list[int] = []
        self.ends: list[int] = []
        self.resident_bytes = 0
        self.records_memory = wants_memory
        self.wall_offset = time.time() - time.perf_counter()
        self._stops = stops
        self._say = say
        self._profiler: TorchProfiler | None = None
        self._is_broken = False
        self._begin = 0

    def names_step(self, step: int) -> bool:
        """Whether the ops of ``step`` are to be learned.

        Not in a compiled program: it would have to run uncompiled, with other rounding.
        """
        return step == self.window.start and not private.has_compiled()

    def learned(self, graph: Graph) -> None:
        self.graph = graph

    def step_seconds(self) -> list[float]:
        """The lengths of all steps so far."""
        return [(end - begin) / 1e9 for begin, end in zip(self.begins, self.ends, strict=True)]

    def start(self) -> None:
        """Called when the program begins."""
        mark_range()  # The first one takes a millisecond.
        self._begin = time.perf_counter_ns()
        if self.window.start == 0:
            self._begin_window()

    def optimizer_begins(self, optimizer: torch.optim.Optimizer) -> None:
        if self._profiler is not None:
            self.tracker.add_optimizer(optimizer)
            self._profiler.begin_span("optimizer")

    def optimizer_ended(self, _: torch.optim.Optimizer) -> None:
        if self._profiler is not None:
            self._profiler.end_span("optimizer")

    def step_ended(self) -> None:
        """Called between two steps."""
        now = time.perf_counter_ns()
        number = len(self.ends)
        self.begins.append(self._begin)
        self.ends.append(now)
        self._begin = now
        if not self._is_broken and self.window.start <= number + 1 <= self.window.stop:
            self._shielded(lambda: self._turn(number, now))

    def close(self) -> None:
        """Called when the program has ended; a step that has not ended is not counted."""
        self._shielded(self._stop_profiler)
        self._finish()

    def _shielded(self, action: Callable[[], None]) -> None:
        """Run ``action``; a failure ends the profile, not the training."""
        try:
            action()
        except Exception as error:
            self._is_broken = True
            with suppress(Exception):
                self._stop_profiler()
            self._finish()
            if isinstance(error, SondeError):
                self._say(ProblemLine.about(error, "sonde: "))
                return
            self._say(
                ProblemLine(
                    "sonde: profiling failed and is switched off, training goes on: "
                    f"{type(error).__name__}: {error}",
                    slug="profile-failed",
                )
            )

    # ------------------------------------------------------------------ between two steps

    def _turn(self, number: int, now: int) -> None:
        """Go from step ``number``, which ended at ``now``, to the next."""
        following = number + 1
        if self._profiler is not None:
            self._profiler.end_step(now)
        if following == self.window.start:
            self._begin_window()
        else:
            self.tracker.stop_watching_calls()
            self.sampler.stop()
        if following not in self.window:
            self._stop_profiler()
            if number in self.window:
                self._end_window()
        self._begin = time.perf_counter_ns()
        if following in self.window and following >= self.window.first_timed and following > 0:
            if self._profiler is None:
                self._profiler = self._start_profiler()
            self._begin = self._profiler.begin_step(following)

    def _begin_window(self) -> None:
        """Prepare the step that is run to learn names and lines, and is not timed."""
        self.tracker.begin_profile()
        if self.names_step(self.window.start):
            self.tracker.watch_first_call()
        self.sampler.start()

    def _start_profiler(self) -> TorchProfiler:
        self.resident_bytes = _resident_bytes()
        ops = len(self.graph) if self.graph is not None else 0
        seconds = self.step_seconds()
        usual = statistics.median(seconds[1 : self.window.start] or seconds)
        self.records_memory |= ops * _MEMORY_SECONDS_PER_OP < _MEMORY_SHARE * usual
        profiler = TorchProfiler(
            expected_ops=ops * (self.window.stop - self.window.first_timed),
            # The learned graph has shapes, and recording them costs more than all the rest.
            records_shapes=self.graph is None and not self.names_step(self.window.start),
            records_memory=self.records_memory,
            before_another=self._give_way,
        )
        self.session = profiler.session
        return profiler

    def _stop_profiler(self) -> None:
        profiler, self._profiler = self._profiler, None
        if profiler is not None:
            profiler.stop()

    def _give_way(self) -> None:
        """End the profile because the program starts torch's profiler itself."""
        self._is_broken = True
        self._shielded(self._stop_profiler)
        self._finish()
        text = "sonde: the program runs torch's profiler itself; profiling ends before that"
        self._say(ProblemLine(text, slug="profile-busy"))

    def _end_window(self) -> None:
        self._finish()
        if self._stops:
            raise WindowDone
        last = self.window.stop - 1
        self._say(
            f"sonde: steps {self.window.start} to {last} are profiled; the report follows when "
            "the program ends (--stop ends it here)"
        )

    def _finish(self) -> None:
        self.tracker.end_profile()
        self.sampler.stop()


def _resident_bytes() -> int:
    """Memory of this process that is in RAM; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm") as stream:
            return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
