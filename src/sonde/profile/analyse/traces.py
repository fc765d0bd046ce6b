"""The profiled steps, each with its events, in the profiler's clock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sonde.profile.analyse.intervals import Interval, union
from sonde.profile.record.events import MemoryEvent, Nested, TraceEvent, nest
from sonde.profile.record.torch_profiler import MARK, ProfilerSession, RecordedSpan

_COMPILING = "(dynamo_timed)"
# A backend has an event of its own for the time that a collective takes.
_BACKEND_EVENTS = ("gloo:", "nccl:", "mpi:", "ucc:", "xccl:")
_COLLECTIVE_OPS = ("c10d::", "_c10d_functional::", "c10d_functional::")


@dataclass(frozen=True, slots=True)
class StepTrace:
    """One profiled step. All times are nanoseconds of the profiler's clock.

    ``main`` are the events of the training thread, ``others`` those of all other threads.
    ``collectives`` are the times when a collective was under way, ``compiling`` those when
    torch.compile was compiling.
    """

    number: int
    begin: int
    end: int
    main: Nested
    others: tuple[TraceEvent, ...]
    optimizers: tuple[Interval, ...]
    backwards: tuple[Interval, ...]
    collectives: tuple[Interval, ...]
    compiling: tuple[Interval, ...]
    memory: tuple[MemoryEvent, ...]
    clock_offset: int

    @property
    def seconds(self) -> float:
        return (self.end - self.begin) / 1e9


def is_collective_op(name: str) -> bool:
    return name.startswith(_COLLECTIVE_OPS)


def read_session(session: ProfilerSession) -> list[StepTrace]:
    """The steps of one run of the profiler, each with its events."""
    events, memory = session.events, session.memory
    marks = sorted((event for event in events if event.name == MARK), key=lambda e: e.start)
    if not marks or not session.steps:
        return []
    # The mark begins a few microseconds after our reading of the clock, sometimes later by chance.
    offset = min(mark.start - read for mark, read in zip(marks, session.marks, strict=False))
    thread = marks[0].thread
    traces = []
    for step in session.steps:
        begin, end = step.begin + offset, step.end + offset
        inside = [e for e in events if begin <= e.start < end and e.name != MARK]
        compiling = union((e.start, min(e.end, end)) for e in inside if _is_compiling(e, thread))
        main = [
            e if e.end <= end else replace(e, end=end)
            for e in inside
            if e.thread == thread and not e.is_async and not _is_within(e, compiling)
        ]
        traces.append(
            StepTrace(
                number=step.number,
                begin=begin,
                end=end,
                main=nest(main),
                others=tuple(e for e in inside if e.thread != thread or e.is_async),
                optimizers=_shifted(step.spans["optimizer"], offset, end),
                backwards=_shifted(step.spans["backward"], offset, end),
                collectives=tuple(
                    (e.start, min(e.end, end))
                    for e in inside
                    if e.name.startswith((*_BACKEND_EVENTS, *_COLLECTIVE_OPS))
                ),
                compiling=tuple(compiling),
                memory=tuple(m for m in memory if begin <= m.time < end),
                clock_offset=offset,
            )
        )
    return traces


def _is_compiling(event: TraceEvent, thread: int) -> bool:
    return event.thread == thread and (event.name == "dynamo" or event.name.endswith(_COMPILING))


def _is_within(event: TraceEvent, spans: Iterable[Interval]) -> bool:
    return any(begin <= event.start and event.end <= end for begin, end in spans)


def _shifted(spans: Sequence[RecordedSpan], offset: int, end: int) -> tuple[Interval, ...]:
    return tuple((s.begin + offset, (s.end or end - offset) + offset) for s in spans)
