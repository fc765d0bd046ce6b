"""Turns a recording into the profile that is stored and shown."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec
import torch

import sonde
from sonde.core.errors import SondeError
from sonde.core.finding import Finding
from sonde.core.graph import Source
from sonde.profile.analyse import cost, overview, tables
from sonde.profile.analyse.event_matching import is_collective_type
from sonde.profile.analyse.intervals import length, union
from sonde.profile.analyse.memory import measure_memory
from sonde.profile.analyse.split import LOADER, PARTS
from sonde.profile.analyse.timings import Timings, idle_seconds, time_steps
from sonde.profile.analyse.traces import is_collective_op, read_session
from sonde.profile.document import (
    FORMAT,
    CollectiveItem,
    CompilationItem,
    FoundItem,
    Gain,
    LoaderItem,
    Machine,
    Profile,
)
from sonde.profile.machine import this_machine
from sonde.profile.places import Places
from sonde.profile.record import private
from sonde.profile.record.object_tracking import SeenLoader
from sonde.profile.record.recorder import ProfileRecorder
from sonde.profile.record.sampler import Activity, shares
from sonde.profile.replay.collectives import replay_all_reduces
from sonde.profile.rules import judge
from sonde.profile.rules.evidence import ProfileEvidence
from sonde.profile.rules.suggestions import worth_trying

_QUICK_SECONDS = 5e-4


@dataclass(frozen=True, slots=True)
class Subject:
    """The program that was run, and the rank of this process."""

    program: tuple[str, ...]
    rank: int
    ranks: int


def analyse(
    recorder: ProfileRecorder, subject: Subject, places: Places, say: Callable[[str], None]
) -> tuple[Profile, Timings]:
    """The profile of a recording, and the timed steps, from which the trace file is written.

    Raises SondeError if no step of the window ran to its end.
    """
    traces = read_session(recorder.session) if recorder.session is not None else []
    if not traces:
        raise _no_steps(recorder)
    timings = time_steps(traces, recorder.graph)
    even = overview.without_outliers(timings, recorder.graph)
    machine = this_machine()
    summary_parts: dict[str, float] = {part: even.part_seconds(part) for part in PARTS}
    evidence = _evidence(recorder, timings, machine, places, subject, summary_parts)
    findings = judge(evidence, say) if subject.rank == 0 else []
    memory = None
    if recorder.records_memory:
        memory = measure_memory(timings.usual_step, recorder.resident_bytes)
    profile = Profile(
        format=FORMAT,
        program=subject.program,
        created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        versions=_versions(),
        rank=subject.rank,
        ranks=subject.ranks,
        machine=machine,
        summary=overview.summarise(recorder, timings, even, memory),
        steps=overview.step_items(recorder, timings),
        timeline=tables.timeline(timings),
        ops=tables.op_items(even, machine),
        modules=tables.module_tree(even),
        lines=tables.line_items(even, _lines_outside_ops(recorder, even)),
        memory=memory,
        collectives=_collectives(even, evidence),
        loaders=tuple(item for _, item in evidence.loaders),
        compilations=_compilations(evidence),
        findings=tuple(map(found_item, findings)),
        worth_trying=worth_trying(evidence, subject.ranks, {finding.rule for finding in findings}),
        notes=overview.describe_recording(recorder, timings, even),
    )
    return profile, timings


def _versions() -> dict[str, str]:
    return {
        "sonde": sonde.__version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
    }


def found_item(finding: Finding) -> FoundItem:
    """The stored form of a finding."""
    facts = dict(finding.evidence)
    gain = {name: facts.pop(f"gain_{name}") for name in ("seconds", "share", "how")}
    return FoundItem(
        rule=finding.rule,
        direction=str(facts.pop("direction")),
        severity=finding.severity,
        message=finding.message,
        advice=finding.advice,
        gain=msgspec.convert(gain, Gain),
        place=finding.source,
        evidence=facts,
        status=finding.status,
    )


def _evidence(
    recorder: ProfileRecorder,
    timings: Timings,
    machine: Machine,
    places: Places,
    subject: Subject,
    shown_parts: Mapping[str, float],
) -> ProfileEvidence:
    sizes = [  # of each collective of the learned step, in bytes
        sum(cost.spec_bytes(edge.spec) for edge in node.inputs)
        for node in recorder.graph or ()
        if is_collective_type(node.type)
    ]
    first, last = timings.steps[0].trace, timings.steps[-1].trace
    begin = recorder.wall_offset + (first.begin - first.clock_offset) / 1e9
    end = recorder.wall_offset + (last.end - last.clock_offset) / 1e9
    return ProfileEvidence(
        timings=timings,
        machine=machine,
        places=places,
        graph=recorder.graph,
        data_lines=_lines(recorder, "data", timings.part_seconds("data")),
        rest_lines=_lines(recorder, "loop", idle_seconds(timings.steps)),
        loaders=[(seen, _loader_item(seen, timings)) for seen in recorder.tracker.loaders],
        optimizers=recorder.tracker.optimizers,
        call=recorder.tracker.call,
        compilations=[each for each in private.compilations() if begin <= each.begin < end],
        collective_bytes=float(sum(sizes)) or None,
        all_reduces=replay_all_reduces(sizes, subject.rank, subject.ranks),
        shown_parts=shown_parts,
    )


def _lines(recorder: ProfileRecorder, activity: Activity, seconds: float) -> dict[Source, float]:
    """A step's seconds of one activity, divided among lines by the number of samples."""
    found = shares(recorder.sampler.samples, activity)
    return {source: share * seconds for source, share in found.items()}


def _lines_outside_ops(recorder: ProfileRecorder, timings: Timings) -> dict[Source, float]:
    """Seconds of the lines that load data or run in the loop, without the ops they run."""
    in_ops = timings.mean_seconds(
        own for times in timings.ops.values() if times.part == "data" for own in times.own
    )
    found = _lines(recorder, "loop", idle_seconds(timings.steps))
    loading = max(0.0, timings.part_seconds("data") - in_ops)
    for source, seconds in _lines(recorder, "data", loading).items():
        found[source] = found.get(source, 0.0) + seconds
    return found


def _loader_item(seen: SeenLoader, timings: Timings) -> LoaderItem:
    fetches = [
        event.end - event.start
        for step in timings.steps
        for event in step.trace.main.events
        if event.name.startswith(LOADER)
    ]
    slow = sum(taken > _QUICK_SECONDS * 1e9 for taken in fetches)
    return LoaderItem(
        place=seen.source,
        workers=seen.loader.num_workers,
        batch_size=seen.loader.batch_size,
        pins_memory=bool(seen.loader.pin_memory),
        waits=slow / len(fetches) if fetches else 0.0,
    )


def _compilations(evidence: ProfileEvidence) -> tuple[CompilationItem, ...]:
    return tuple(
        CompilationItem(Source(each.file, each.line, each.function, ""), each.seconds, each.reason)
        for each in evidence.compilations
    )


def _collectives(timings: Timings, evidence: ProfileEvidence) -> CollectiveItem | None:
    under_way = timings.mean_seconds(
        length(union(step.trace.collectives)) for step in timings.steps
    )
    if under_way == 0:
        return None
    launched = sum(
        is_collective_op(event.name) for step in timings.steps for event in step.trace.main.events
    )
    return CollectiveItem(
        calls=launched / timings.count,
        nbytes=evidence.collective_bytes,
        under_way=under_way,
        exposed=timings.part_seconds("collectives"),
        overlapped=timings.mean_seconds(step.split.overlapped for step in timings.steps),
    )


def _no_steps(recorder: ProfileRecorder) -> SondeError:
    ran, window = len(recorder.ends), recorder.window
    if ran == 0:
        hint = "no optimizer's step() was called in the main thread"
    elif ran < window.first_timed + 1:
        hint = f"the program made {ran} steps; try --steps {max(1, ran // 3)}:{max(2, ran)}"
    else:
        hint = "the profiler recorded nothing"
    return SondeError(f"no step of {window} was profiled: {hint}", slug="profile-no-steps")
