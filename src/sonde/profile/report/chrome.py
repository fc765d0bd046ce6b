"""Writes the profiled steps as a trace for Perfetto and chrome://tracing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from sonde.core.files.atomic_file import write_whole
from sonde.core.graph import OpNode
from sonde.profile.analyse.event_matching import inherited
from sonde.profile.analyse.timings import TimedStep, Timings
from sonde.profile.record.events import TraceEvent

_STEPS, _PARTS, _MAIN = 1, 2, 10


def write_trace(timings: Timings, rank: int, path: Path) -> None:
    """Write steps, their parts, the events of all threads, and memory."""
    events = [*_headings(timings, rank)]
    for step in timings.steps:
        events.extend(_step_events(step))
    trace = {"displayTimeUnit": "ms", "traceEvents": [{**event, "pid": rank} for event in events]}
    write_whole(path, msgspec.json.encode(trace))


def _headings(timings: Timings, rank: int) -> Iterator[dict[str, Any]]:
    names = {_STEPS: "steps", _PARTS: "parts", _MAIN: "training thread"}
    for thread in sorted({e.thread for step in timings.steps for e in step.trace.others}):
        names[_MAIN + thread] = f"thread {thread}"
    yield {"ph": "M", "name": "process_name", "args": {"name": f"rank {rank}"}}
    for thread, name in names.items():
        head = {"ph": "M", "tid": thread}
        yield {**head, "name": "thread_name", "args": {"name": name}}
        yield {**head, "name": "thread_sort_index", "args": {"sort_index": thread}}


def _step_events(step: TimedStep) -> Iterator[dict[str, Any]]:
    trace = step.trace
    yield _slice(f"step {trace.number}", trace.begin, trace.end, _STEPS)
    for begin, end, part in step.split.in_order():
        yield _slice(part, begin, end, _PARTS)
    nodes = inherited(trace.main, step.names)
    for event, node in zip(trace.main.events, nodes, strict=True):
        yield _slice(event.name, event.start, event.end, _MAIN, _arguments(event, node))
    for event in trace.others:
        yield _slice(event.name, event.start, event.end, _MAIN + event.thread)
    level = 0
    for change in trace.memory:
        level += change.nbytes
        args = {"bytes above the step's beginning": level}
        yield {"ph": "C", "name": "memory", "ts": change.time / 1e3, "args": args}


def _slice(
    name: str, begin: int, end: int, thread: int, args: dict[str, Any] | None = None
) -> dict[str, Any]:
    made = {"ph": "X", "name": name, "tid": thread, "ts": begin / 1e3, "dur": (end - begin) / 1e3}
    return {**made, "args": args} if args else made


def _arguments(event: TraceEvent, node: OpNode | None) -> dict[str, Any]:
    args: dict[str, Any] = {}
    if node is not None:
        args["module"] = node.scope
        if node.source is not None:
            args["line"] = f"{node.source}  {node.source.code}"
    if event.shapes:
        args["shapes"] = str([list(shape) for shape in event.shapes])
    return args
