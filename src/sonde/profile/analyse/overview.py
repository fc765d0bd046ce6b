"""The steps of a recording as a whole: which are ordinary, how long they are, what to say of it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from sonde.core.graph import Graph
from sonde.profile.analyse.split import PARTS
from sonde.profile.analyse.timings import Timings, time_steps
from sonde.profile.analyse.traces import StepTrace
from sonde.profile.document import MemoryItem, ProfileSummary, StepItem
from sonde.profile.record.recorder import ProfileRecorder

_WARM_UP = 2
_LEAST_BARE = 3
_FAR = 3.0
_LEAST_RATIO = 1.25


def without_outliers(timings: Timings, graph: Graph | None) -> Timings:
    """The steps without those that something held up, which would be most of a mean."""
    far = outliers([step.trace.seconds for step in timings.steps])
    if not far:
        return timings
    return time_steps(
        [step.trace for index, step in enumerate(timings.steps) if index not in far], graph
    )


def summarise(
    recorder: ProfileRecorder, timings: Timings, even: Timings, memory: MemoryItem | None
) -> ProfileSummary:
    """The numbers of the first screen; parts are means over the ``even`` steps."""
    seconds = _all_seconds(recorder)
    window = range(recorder.window.start, recorder.window.stop)
    bare = bare_step_time(seconds, window)
    profiled = statistics.median(step.trace.seconds for step in timings.steps)
    judged = [value for number, value in enumerate(seconds) if number > 1 and number not in window]
    if len(judged) < len(timings.steps):
        judged = [step.trace.seconds for step in timings.steps]
    return ProfileSummary(
        step_time=profiled if bare is None else bare,
        profiled_step_time=profiled,
        parts={part: even.part_seconds(part) for part in PARTS},
        jitter=jitter(judged),
        outliers=len(outliers(judged)),
        steps=len(seconds),
        peak_memory=memory.peak if memory is not None else None,
        overhead=profiled / bare if bare else None,
    )


def step_items(recorder: ProfileRecorder, timings: Timings) -> tuple[StepItem, ...]:
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


def describe_recording(
    recorder: ProfileRecorder, timings: Timings, even: Timings
) -> tuple[str, ...]:
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


def _all_seconds(recorder: ProfileRecorder) -> list[float]:
    return [(e - b) / 1e9 for b, e in zip(recorder.begins, recorder.ends, strict=True)]


def jitter(seconds: Sequence[float]) -> float:
    """The spread of the middle half over the median; 0 for fewer than four steps."""
    if len(seconds) < 4:
        return 0.0
    lower, middle, upper = statistics.quantiles(seconds, n=4, method="inclusive")
    return (upper - lower) / middle if middle > 0 else 0.0


def outliers(seconds: Sequence[float]) -> list[int]:
    """Positions of steps far above the others: beyond Tukey's outer fence and a quarter longer."""
    if len(seconds) < 4:
        return []
    lower, middle, upper = statistics.quantiles(seconds, n=4, method="inclusive")
    fence = max(upper + _FAR * (upper - lower), _LEAST_RATIO * middle)
    return [index for index, value in enumerate(seconds) if value > fence]


def bare_step_time(seconds: Sequence[float], profiled: range) -> float | None:
    """The median of the steps outside the window, without the first two; None for too few."""
    bare = [
        value
        for number, value in enumerate(seconds)
        if number >= _WARM_UP and number not in profiled
    ]
    return statistics.median(bare) if len(bare) >= _LEAST_BARE else None
