"""The steps of a recording as a whole: which are ordinary, how long they are, what to say of it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from sonde.core.graph import Graph
from sonde.profile.document import MemoryItem, StepItem, Summary
from sonde.profile.jitter import bare_step_time, jitter, outliers
from sonde.profile.recorder import Recorder
from sonde.profile.split import PARTS
from sonde.profile.timings import Timings, time_steps
from sonde.profile.traces import StepTrace


def without_outliers(timings: Timings, graph: Graph | None) -> Timings:
    """The steps without those that something held up, which would be most of a mean."""
    far = outliers([step.trace.seconds for step in timings.steps])
    if not far:
        return timings
    return time_steps(
        [step.trace for index, step in enumerate(timings.steps) if index not in far], graph
    )


def summarise(
    recorder: Recorder, timings: Timings, even: Timings, memory: MemoryItem | None
) -> Summary:
    """The numbers of the first screen; parts are means over the ``even`` steps."""
    seconds = _all_seconds(recorder)
    window = range(recorder.window.start, recorder.window.stop)
    bare = bare_step_time(seconds, window)
    profiled = statistics.median(step.trace.seconds for step in timings.steps)
    judged = [value for number, value in enumerate(seconds) if number > 1 and number not in window]
    if len(judged) < len(timings.steps):
        judged = [step.trace.seconds for step in timings.steps]
    return Summary(
        step_time=profiled if bare is None else bare,
        profiled_step_time=profiled,
        parts={part: even.part_seconds(part) for part in PARTS},
        jitter=jitter(judged),
        outliers=len(outliers(judged)),
        steps=len(seconds),
        peak_memory=memory.peak if memory is not None else None,
        overhead=profiled / bare if bare else None,
    )


def step_items(recorder: Recorder, timings: Timings) -> tuple[StepItem, ...]:
    """Every step of the program, outliers marked, with its parts where it was profiled."""
    seconds = _all_seconds(recorder)
    splits = {step.trace.number: step for step in timings.steps}
    far = {index + 1 for index in outliers(seconds[1:])}
    items = []
    for number, value in enumerate(seconds):
        step = splits.get(number)
        kind = "bare"
        if step is not None:
            kind = "timed"
        elif number == recorder.window.named and recorder.graph is not None:
            kind = "named"
        items.append(
            StepItem(
                number=number,
                seconds=value,
                kind=kind,
                is_outlier=number in far and kind in ("bare", "timed"),
                parts=(
                    {part: step.split.seconds(part) for part in PARTS} if step is not None else None
                ),
            )
        )
    return tuple(items)


def describe_recording(recorder: Recorder, timings: Timings, even: Timings) -> tuple[str, ...]:
    """What a reader of the numbers should know: what is left out, and why."""
    notes = []
    if even.count < timings.count:
        kept = {step.trace.number for step in even.steps}
        far = [step.trace for step in timings.steps if step.trace.number not in kept]
        notes.append(
            f"{len(far)} of {timings.count} profiled steps took {_usual_times(far, even)} as long "
            "as the others and are left out of the parts and tables: "
            + ", ".join(f"step {trace.number}" for trace in far)
        )
    if recorder.graph is None:
        notes.append(
            "the program is compiled: ops inside compiled regions have no names, modules or lines"
        )
    if not recorder.records_memory:
        notes.append(
            "memory is not recorded: with ops as short as these it would change the times; "
            "--memory does it all the same"
        )
    return tuple(notes)


def _usual_times(far: Sequence[StepTrace], even: Timings) -> str:
    return f"{statistics.median(trace.seconds for trace in far) / even.seconds:.1f} times"


def _all_seconds(recorder: Recorder) -> list[float]:
    return [(e - b) / 1e9 for b, e in zip(recorder.begins, recorder.ends, strict=True)]
