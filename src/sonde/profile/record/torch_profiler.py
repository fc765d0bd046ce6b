"""One run of torch's profiler over consecutive steps, and what Sonde marks in it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from sonde.core.errors import CaptureError
from sonde.profile.record import private
from sonde.profile.record.events import MemoryEvent, TraceEvent

MARK = "sonde::mark"
SpanKind = Literal["optimizer", "backward"]

_EVENTS_PER_OP = 2.5
_EVENT_BYTES = 300
_LEAST_WARM_BYTES = 1 << 20
# glibc keeps blocks up to 32 MiB on its heap, and frees of up to twice the largest of them there.
_MOST_WARM_BYTES = 30 << 20


@dataclass(slots=True)
class RecordedSpan:
    """Something that happened from ``begin`` to ``end`` (``perf_counter_ns``)."""

    begin: int
    end: int = 0


@dataclass(slots=True)
class StepMarks:
    """One profiled step: when it ran, and what was seen from outside the profiler."""

    number: int
    begin: int
    end: int = 0
    spans: dict[SpanKind, list[RecordedSpan]] = field(
        default_factory=lambda: {"optimizer": [], "backward": []}
    )


@dataclass(slots=True)
class ProfilerSession:
    """What one run of the profiler recorded; ``marks`` relate its clock to ``perf_counter_ns``."""

    events: list[TraceEvent] = field(default_factory=list)
    memory: list[MemoryEvent] = field(default_factory=list)
    steps: list[StepMarks] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)


class TorchProfiler:
    """Runs torch's profiler from its creation to `stop`.

    There is one run for all steps: if the profiler were stopped and started again, a range that
    was open at the stop, such as the optimizer's own, would write into freed memory when it ends.
    ``before_another`` is called when the program starts torch's profiler itself. ``expected_ops``
    is the number of ops that will be recorded, used to reserve memory.
    """

    def __init__(
        self,
        *,
        expected_ops: int,
        records_shapes: bool,
        records_memory: bool,
        before_another: Callable[[], None],
    ) -> None:
        if private.another_profiler_runs():
            raise CaptureError(
                "the program runs torch's profiler itself; choose other --steps",
                slug="profile-busy",
            )
        self.session = ProfilerSession()
        self._step: StepMarks | None = None
        self._running = ExitStack()
        warm_heap(event_bytes(expected_ops))
        if records_memory:
            self._running.enter_context(private.quiet_memory())
        with private.quiet_first_start(), private.ops_and_ranges_only():
            self._profiler = profile(
                activities=[ProfilerActivity.CPU],
                record_shapes=records_shapes,
                profile_memory=records_memory,
                **private.light_options(),
            )
            self._profiler.start()
        self._running.callback(self._profiler.stop)
        self._running.enter_context(
            private.watching_backward(
                lambda _: self.begin_span("backward"), lambda: self.end_span("backward")
            )
        )
        self._running.enter_context(private.before_another_profiler(before_another))

    def begin_step(self, number: int) -> int:
        """Begin a step; returns the time at which it begins."""
        self._mark()
        self._step = StepMarks(number, time.perf_counter_ns())
        return self._step.begin

    def end_step(self, now: int) -> None:
        if self._step is not None:
            self._step.end = now
            self.session.steps.append(self._step)
            self._step = None

    def begin_span(self, kind: SpanKind) -> None:
        if self._step is not None:
            self._step.spans[kind].append(RecordedSpan(time.perf_counter_ns()))

    def end_span(self, kind: SpanKind) -> None:
        if self._step is not None and self._step.spans[kind]:
            self._step.spans[kind][-1].end = time.perf_counter_ns()

    def stop(self) -> None:
        """Stop the profiler and read its events; a step that has not ended is dropped."""
        self._step = None
        self._mark()
        self._running.close()
        self.session.events, self.session.memory = private.read_events(self._profiler)

    def _mark(self) -> None:
        """Record a range in the profile whose begin is known by our clock, too."""
        self.session.marks.append(time.perf_counter_ns())
        mark_range()


def mark_range() -> None:
    with record_function(MARK):
        pass


def event_bytes(ops: int) -> int:
    """Roughly the memory that the events of so many ops take."""
    return int(ops * _EVENTS_PER_OP * _EVENT_BYTES)


def warm_heap(nbytes: int) -> int:
    """Make ``nbytes`` of touched memory free for the next allocations; returns how many.

    Touching a page that is new to the process costs about as much as recording an op. A small
    amount is not worth it, and the allocator does not keep a large one. Has no effect with other
    allocators than glibc's.
    """
    if nbytes < _LEAST_WARM_BYTES:
        return 0
    size = min(nbytes, _MOST_WARM_BYTES)
    for _ in range(2):  # The first goes back to the system when freed, the second stays.
        torch.empty(size, dtype=torch.uint8).fill_(0)
    return size
