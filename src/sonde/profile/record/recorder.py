"""The clock of every step, and torch's profiler in the steps of the window.

Outside the window a step costs two looks at the clock. Between two profiled steps, never inside
one, the profiler is started and stopped; that time belongs to no step.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from sonde.core.errors import CaptureError, SondeError
from sonde.core.graph import Graph
from sonde.profile.record import private
from sonde.profile.record.events import MemoryEvent, TraceEvent
from sonde.profile.record.heap import event_bytes, warm_heap
from sonde.profile.record.object_tracking import ObjectTracker
from sonde.profile.record.sampler import Sample, Sampler
from sonde.profile.record.window import StepWindow

MARK = "sonde::mark"

# What recording memory costs an op, roughly, and the share of a step that it may cost.
_MEMORY_SECONDS_PER_OP = 0.3e-6
_MEMORY_SHARE = 0.03


class WindowDone(BaseException):
    """Ends the program after its window when that was asked for; no error."""


@dataclass(slots=True)
class RecordedSpan:
    """Something that happened from ``begin`` to ``end`` (``perf_counter_ns``)."""

    begin: int
    end: int = 0


@dataclass(slots=True)
class StepMarks:
    """One step that was profiled: when it ran and what was seen from outside the profiler."""

    number: int
    begin: int
    end: int = 0
    optimizers: list[RecordedSpan] = field(default_factory=list)
    backwards: list[RecordedSpan] = field(default_factory=list)


@dataclass(slots=True)
class ProfilerSession:
    """The run of torch's profiler over consecutive steps; ``marks`` tie the two clocks."""

    events: list[TraceEvent] = field(default_factory=list)
    memory: list[MemoryEvent] = field(default_factory=list)
    steps: list[StepMarks] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)


class ProfileRecorder:
    """Records the steps of ``window``; methods are called from the training thread.

    `learned` tells it the ops of the step that `names_step` asks for. ``say`` shows a line to the
    person at the terminal. With ``stops`` the program ends after the window by `WindowDone`. Memory
    is recorded with ``wants_memory``, and where that costs a step little.
    """

    def __init__(
        self,
        window: StepWindow,
        *,
        tracker: ObjectTracker,
        sampler: Sampler,
        stops: bool,
        wants_memory: bool,
        say: Callable[[str], None],
    ) -> None:
        self.window = window
        self.tracker = tracker
        self.graph: Graph | None = None
        self.session: ProfilerSession | None = None
        self.begins: list[int] = []
        self.ends: list[int] = []
        self.resident_bytes = 0
        self.records_memory = False
        self.wall_offset = time.time() - time.perf_counter()
        self._sampler = sampler
        self._stops = stops
        self._wants_memory = wants_memory
        self._say = say
        self._quiet = private.QuietMemory()
        self._profiler: profile | None = None
        self._step: StepMarks | None = None
        self._is_broken = False
        self._watching = ExitStack()
        self._begin = 0

    @property
    def samples(self) -> Sequence[Sample]:
        return self._sampler.samples

    def names_step(self, step: int) -> bool:
        """Whether the ops of ``step`` are to be learned.

        Compiled code would have to run as if it were not compiled, so that it would not compute
        the same to the last bit.
        """
        return step == self.window.named and not private.has_compiled()

    def learned(self, graph: Graph) -> None:
        self.graph = graph

    def start(self) -> None:
        """The program begins."""
        with record_function(MARK):  # the first one ever takes a millisecond
            pass
        self._begin = time.perf_counter_ns()
        if self.window.start == 0:
            self._begin_window()

    def optimizer_begins(self, optimizer: torch.optim.Optimizer) -> None:
        if self._step is not None:
            self.tracker.steps(optimizer)
            self._step.optimizers.append(RecordedSpan(time.perf_counter_ns()))

    def optimizer_left(self, _: torch.optim.Optimizer) -> None:
        if self._step is not None and self._step.optimizers:
            self._step.optimizers[-1].end = time.perf_counter_ns()

    def step_ended(self) -> None:
        """A step is over, the next begins."""
        now = time.perf_counter_ns()
        number = len(self.ends)
        self.begins.append(self._begin)
        self.ends.append(now)
        if self._is_near(number):
            self._shielded(lambda: self._turn(number, now))
            now = time.perf_counter_ns()
            if self._step is not None:
                self._step.begin = now
        self._begin = now

    def close(self) -> None:
        """The program is over; a step that is not over is not counted."""
        self._step = None
        if self._profiler is not None:
            self._shielded(self._stop_profiler)
        self._finish()

    def _is_near(self, step: int) -> bool:
        """Whether the window begins after, has, or ends with ``step``."""
        return not self._is_broken and self.window.start <= step + 1 <= self.window.stop

    def _shielded(self, action: Callable[[], None]) -> None:
        """A failure of ours, or of torch's profiler, must not end the training."""
        try:
            action()
        except Exception as error:
            self._is_broken = True
            self._step = None
            self._finish()
            self._watching.close()
            if isinstance(error, SondeError):
                self._say(f"sonde: {error}")
                return
            self._say(
                "sonde: profiling failed and is switched off, training goes on: "
                f"{type(error).__name__}: {error} [profile-failed]"
            )

    # ------------------------------------------------------------------ between two steps

    def _turn(self, number: int, now: int) -> None:
        """From step ``number``, which ended at ``now``, to the next."""
        window = self.window
        following = number + 1
        if self._step is not None and self.session is not None:
            self._step.end = now
            self.session.steps.append(self._step)
            self._step = None
        if following == window.start:
            self._begin_window()
        else:
            self.tracker.stop_watching_calls()
            self._sampler.stop()
        if following not in window:
            if self._profiler is not None:
                self._stop_profiler()
            if number in window:
                self._window_done()
        elif following >= window.first_timed and following > 0:
            self._profile_step(following)

    def _begin_window(self) -> None:
        """The step that follows is run to learn names and lines, and is not timed."""
        self.tracker.profile_begins()
        if self.names_step(self.window.start):
            self.tracker.watch_first_call()
        self._sampler.start()

    def _profile_step(self, number: int) -> None:
        if self._profiler is None:
            self._start_profiler()
        self._step = StepMarks(number, 0)
        self._mark()

    def _start_profiler(self) -> None:
        """The one start there is.

        The profiler must not be stopped and started again: a range that was open at the stop, such
        as the optimizer's own, would write into memory of the first run when it ends in the second.
        """
        if private.another_profiler_runs():
            raise CaptureError(
                "the program runs torch's profiler itself; choose other --steps",
                slug="profile-busy",
            )
        self.resident_bytes = _resident_bytes()
        self.records_memory = self._wants_memory or self._is_memory_cheap()
        ops = len(self.graph) if self.graph is not None else 0
        warm_heap(event_bytes(ops, self.window.stop - self.window.first_timed))
        if self.records_memory:
            self._quiet.on()
        with private.quiet_first_start(), private.ops_and_ranges_only():
            self._profiler = profile(
                activities=[ProfilerActivity.CPU],
                # The learned graph has shapes, and recording them costs more than all the rest.
                record_shapes=self.graph is None and not self.names_step(self.window.start),
                profile_memory=self.records_memory,
                **private.light_options(),
            )
            self._profiler.start()
        self.session = ProfilerSession()
        self._watching.enter_context(
            private.watching_backward(self._backward_begins, self._backward_ended)
        )
        self._watching.enter_context(private.giving_way(self._give_way))

    def _is_memory_cheap(self) -> bool:
        ops = len(self.graph) if self.graph is not None else 0
        lasted = [end - begin for begin, end in zip(self.begins, self.ends, strict=True)]
        usual = statistics.median(lasted[1 : self.window.start] or lasted) / 1e9
        return ops * _MEMORY_SECONDS_PER_OP < _MEMORY_SHARE * usual

    def _stop_profiler(self) -> None:
        assert self._profiler is not None
        assert self.session is not None
        self._mark()
        self._watching.close()
        self._profiler.stop()
        if self.records_memory:
            self._quiet.off()
        self.session.events, self.session.memory = private.read_events(self._profiler)
        self._profiler = None

    def _give_way(self) -> None:
        """The program starts torch's profiler itself: what was recorded so far is all there is."""
        self._is_broken = True
        self._step = None
        if self._profiler is not None:
            self._shielded(self._stop_profiler)
        self._finish()
        self._say(
            "sonde: the program runs torch's profiler itself; profiling ends before that "
            "[profile-busy]"
        )

    def _mark(self) -> None:
        """A range in the profile whose begin is known by our clock too."""
        assert self.session is not None
        self.session.marks.append(time.perf_counter_ns())
        with record_function(MARK):
            pass

    def _window_done(self) -> None:
        self._finish()
        if self._stops:
            raise WindowDone
        last = self.window.stop - 1
        self._say(
            f"sonde: steps {self.window.start} to {last} are profiled; the report follows when "
            "the program ends (--stop ends it here)"
        )

    def _finish(self) -> None:
        self.tracker.profile_ends()
        self._sampler.stop()

    def _backward_begins(self, _: Sequence[Any]) -> None:
        if self._step is not None:
            self._step.backwards.append(RecordedSpan(time.perf_counter_ns()))

    def _backward_ended(self) -> None:
        if self._step is not None and self._step.backwards:
            self._step.backwards[-1].end = time.perf_counter_ns()


def _resident_bytes() -> int:
    """Memory of this process that is in RAM; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm") as stream:
            return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
