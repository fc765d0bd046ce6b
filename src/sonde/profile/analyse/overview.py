"""The steps of a recording as a whole: outliers, lengths, and notes for the reader."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from sonde.core.graph import Graph
from sonde.profile.analyse.split import PARTS
from sonde.profile.analyse.timings import Timings, time_steps
from sonde.profile.document import MemoryItem, ProfileSummary, StepItem
from sonde.profile.record.recorder import ProfileRecorder

_WARM_UP = 2
_LEAST_BARE = 3
_FAR = 3.0
_LEAST_RATIO = 1.25


def without_outliers(timings: Timings, graph: Graph | None) -> Timings:
    """The steps without those that were delayed, which could dominate a mean."""
    far = outliers([step.trace.seconds for step in timings.steps])
    if not far:
        return timings
    return time_steps(
        [step.trace for index, step in enumerate(timings.steps) if index not in far], graph
    )


def summarise(
    recorder: ProfileRecorder, timings: Timings, even: Timings, memory: MemoryItem | None
) -> ProfileSummary:
    """The summary; parts are means over the ``even`` steps."""
    seconds = recorder.step_seconds()
    bare = bare_seconds(seconds, range(recorder.window.start, recorder.window.stop))
    bare_time = statistics.median(bare) if len(bare) >= _LEAST_BARE else None
    profiled = [step.trace.seconds for step in timings.steps]
    profiled_time = statistics.median(profiled)
    judged = bare if len(bare) >= len(profiled) else profiled
    return ProfileSummary(
        step_time=profiled_time if bare_time is None else bare_time,
        profiled_step_time=profiled_time,
        parts={part: even.part_seconds(part) for part in PARTS},
        jitter=jitter(judged),
        outliers=len(outliers(judged)),
        steps=len(seconds),
        peak_memory=memory.peak if memory is not None else None,
        overhead=profiled_time / bare_time if bare_time else None,
        undisturbed_step_time=timings.usual_seconds,
    )


def step_items(recorder: ProfileRecorder, timings: Timings) -> tuple[StepItem, ...]:
    """Every step of the program, outliers marked, with its parts if it was profiled."""
    seconds = recorder.step_seconds()
    profiled = {step.trace.number: step.split for step in timings.steps}
    far = {index + 1 for index in outliers(seconds[1:])}
    items = []
    for number, value in enumerate(seconds):
        split = profiled.get(number)
        kind = "bare" if split is None else "timed"
        if split is None and number == recorder.window.start and recorder.graph is not None:
            kind = "named"
        items.append(
            StepItem(
                number=number,
                seconds=value,
                kind=kind,
                is_outlier=number in far and kind != "named",
                parts=None if split is None else {part: split.seconds(part) for part in PARTS},
            )
        )
    return tuple(items)


def describe_recording(
    recorder: ProfileRecorder, timings: Timings, even: Timings
) -> tuple[str, ...]:
    """Notes on what the numbers leave out, and why."""
    notes = []
    if even.count < timings.count:
        kept = {step.trace.number for step in even.steps}
        far = [step.trace for step in timings.steps if step.trace.number not in kept]
        ratio = statistics.median(trace.seconds for trace in far) / even.seconds
        notes.append(
            f"{len(far)} of {timings.count} profiled steps took {ratio:.1f} times as long "
            "as the others and are left out of the parts and tables: "
            + ", ".join(f"step {trace.number}" for trace in far)
        )
    if recorder.graph is None:
        notes.append(
            "the program is compiled: ops inside compiled regions have no names, modules or lines"
        )
    if not recorder.records_memory:
        notes.append(
            "memory is not recorded, because with such short ops it would change the times; "
            "use --memory to record it anyway"
        )
    return tuple(notes)


def jitter(seconds: Sequence[float]) -> float:
    """The interquartile range divided by the median; 0 for fewer than four steps."""
    lower, middle, upper = _quartiles(seconds)
    return (upper - lower) / middle if middle > 0 else 0.0


def outliers(seconds: Sequence[float]) -> list[int]:
    """Indices of steps beyond Tukey's outer fence and at least a quarter above the median; none of
    fewer than four steps."""
    lower, middle, upper = _quartiles(seconds)
    fence = max(upper + _FAR * (upper - lower), _LEAST_RATIO * middle)
    return [index for index, value in enumerate(seconds) if value > fence and middle > 0]


def _quartiles(seconds: Sequence[float]) -> list[float]:
    if len(seconds) < 4:
        return [0.0, 0.0, 0.0]
    return statistics.quantiles(seconds, n=4, method="inclusive")


def bare_seconds(seconds: Sequence[float], profiled: range) -> list[float]:
    """The lengths of the steps outside the window, without the first two."""
    return [
        value
        for number, value in enumerate(seconds)
        if number >= _WARM_UP and number not in profiled
    ]
