"""The judge of one job: takes the reports of its ranks, returns findings."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from sonde.core.finding import Finding
from sonde.ranks.between_samples import SpotLog
from sonde.ranks.check import Mismatch, StepCheck
from sonde.ranks.checks import STEP_CHECKS, replicas
from sonde.ranks.checks.replicas import judge_last_steps
from sonde.ranks.collectives import CollectiveLog
from sonde.ranks.ends import RankEnds
from sonde.ranks.epochs import EpochLog
from sonde.ranks.hang import describe_hang, describe_stop
from sonde.ranks.initial_states import InitialStates, State
from sonde.ranks.job_step import JobStep
from sonde.ranks.messages import MessageLog
from sonde.ranks.origins import FirstNonFinite
from sonde.ranks.report import (
    CollectiveReport,
    CollectiveResult,
    EpochReport,
    LoopReport,
    MessageReport,
    NonFiniteReport,
    RankDescription,
    RankReport,
    SpotReport,
    StackReport,
    StepReport,
)
from sonde.ranks.samples import SampleLog

_MOST_STEPS: Final = 64
"""Steps that wait for ranks; beyond, the oldest are judged with the ranks that are there."""
_MOST_FINDINGS: Final = 200


class RankJob:
    """Compares ranks as their reports arrive, in any order. Used from one thread.

    A step is judged when all ranks have reported it, or when too many steps wait. A finding is
    returned once: later ones of the same check about the same subject are only counted.
    """

    def __init__(self, checks: Iterable[StepCheck] = STEP_CHECKS) -> None:
        self._checks = tuple(checks)
        self._descriptions: dict[int, RankDescription] = {}
        self._steps: dict[int, dict[int, StepReport]] = {}
        self._initials = InitialStates()
        self._spots = SpotLog()
        self._judged: JobStep | None = None
        self._first_step = 0  # Its number, as the lowest rank counts.
        self._initial: JobStep | None = None
        self._strikes: dict[tuple[str, str], deque[bool]] = {}
        self._first: dict[tuple[str, str], Mismatch] = {}
        self._reported: set[tuple[str, str]] = set()
        self._kinds: set[str] = set()
        self._collectives = CollectiveLog()
        self._messages = MessageLog()
        self._epochs = EpochLog()
        self._samples = SampleLog()
        self._origins = FirstNonFinite(self._collectives.name)
        self._stacks: dict[int, StackReport] = {}
        self._loops: dict[int, LoopReport] = {}
        self._groups: dict[tuple[int, ...], tuple[int, ...]] = {}
        self.world_size = 0
        self.last_steps: dict[int, int] = {}
        self.findings: list[Finding] = []
        self.judged_steps = 0
        self.dropped_findings = 0

    @property
    def descriptions(self) -> Mapping[int, RankDescription]:
        """What ranks have said about themselves, by number."""
        return dict(sorted(self._descriptions.items()))

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that have described themselves."""
        return tuple(sorted(self._descriptions))

    def add(self, report: RankReport) -> list[Finding]:
        """Take a report; the findings that are new with it."""
        return self._keep(self._new(report))

    def finish(self) -> list[Finding]:
        """Judge the steps that not all ranks have reported; the findings that are new."""
        found = list(self._judge_initial(self._initials.rest()))
        found += [each for step in sorted(self._steps) for each in self._judge(step)]
        found += self._pending()
        found += self._since_last_sample()
        return self._keep([*found, *self._origins.finish()])

    def hang(self, gone: dict[int, str], silent_seconds: float) -> Finding:
        """Where each rank stands, of a job that makes no progress."""
        found = describe_hang(
            self._collectives, self._stacks, self.last_steps, gone, silent_seconds
        )
        self._keep([found])
        return found

    def stopped(self, ends: RankEnds, *, is_over: bool) -> list[Finding]:
        """The first rank that ended although others had not; empty if there is none, or if a
        collective explains it. ``is_over``: all have ended."""
        if "collectives-differ" in self._kinds:
            return []
        awaited = {rank for _, missing in self._collectives.waiting() for rank in missing}
        end = ends.first_stopped(self.last_steps, is_over=is_over, awaited=awaited)
        if end is None:
            return []
        loop = self._loops.get(end.rank) if end.is_orderly else None
        return self._keep([describe_stop(self._collectives, end, self.last_steps, loop)])

    def _keep(self, found: Iterable[Finding]) -> list[Finding]:
        new = list(found)
        room = max(_MOST_FINDINGS - len(self.findings), 0)
        self.findings += new[:room]
        self.dropped_findings += len(new[room:])
        return new[:room]

    def _new(self, report: RankReport) -> Iterator[Finding]:
        match report:
            case RankDescription():
                groups = {name: self._shared(each) for name, each in report.groups.items()}
                self._descriptions[report.rank] = replace(report, groups=groups)
                self.world_size = max(self.world_size, report.world_size)
                yield from self._collectives.know(groups)
            case StepReport():
                yield from self._add_step(report)
            case CollectiveReport():
                for found in self._collectives.add(report):
                    self._kinds.add(found.rule)
                    yield found
            case CollectiveResult():
                yield from self._collectives.add_result(report)
            case MessageReport():
                yield from self._messages.add(report)
            case SpotReport():
                self._spots.add(report)
            case EpochReport():
                yield from self._epochs.add(report)
            case NonFiniteReport():
                yield from self._origins.add(report, self.world_size)
            case StackReport():
                self._stacks[report.rank] = report
            case LoopReport():
                self._loops[report.rank] = report

    def _shared(self, ranks: tuple[int, ...]) -> tuple[int, ...]:
        """One object for equal ranks: a thousand descriptions name the same thousand ranks."""
        return self._groups.setdefault(ranks, ranks)

    def _add_step(self, report: StepReport) -> Iterator[Finding]:
        if report.rank not in self._descriptions:
            return
        self.last_steps[report.rank] = max(self.last_steps.get(report.rank, -1), report.step)
        if report.step < 0:
            description = self._descriptions[report.rank]
            yield from self._judge_initial(self._initials.add(description, report, self.world_size))
            return
        number = report.step - report.first
        reports = self._steps.setdefault(number, {})
        reports[report.rank] = report
        if len(reports) >= self.world_size:
            yield from self._judge(number)
        while len(self._steps) > _MOST_STEPS:
            yield from self._judge_initial(self._initials.rest())
            yield from self._judge(min(self._steps))

    def _judge_initial(self, states: Iterable[dict[int, State]]) -> Iterator[Finding]:
        for state in states:
            if len(state) > 1:
                descriptions = {rank: each for rank, (each, _) in state.items()}
                reports = {rank: each for rank, (_, each) in state.items()}
                # Later states have the tensors of the earlier ones as well.
                step = JobStep(-1, descriptions, reports, self._judged)
                yield from self._judge_step(step)
                self._initial = JobStep(-1, descriptions, reports)

    def _judge(self, number: int) -> Iterator[Finding]:
        """Judge the steps that ranks have made after ``number`` others."""
        reports = self._steps.pop(number)
        if len(reports) > 1:
            first = self._first_step = reports[min(reports)].first
            previous, initial = self._judged, self._initial
            between = self._spots.before(number, first=first)
            shown = number + first
            step = JobStep(shown, self._descriptions, reports, previous, initial, between)
            yield from self._judge_step(step)
            yield from self._samples.add(step)
            if step.is_sampled:
                self._spots.forget(number)

    def _judge_step(self, step: JobStep) -> Iterator[Finding]:
        # The state before the first step is no step, but for a dump, which has that step's ops.
        has_ops = any(each.ops_step >= 0 for each in step.reports.values())
        self.judged_steps += step.step >= 0 or has_ops
        for check in self._checks:
            if check.is_sampled and not step.is_sampled:
                continue
            yield from self._counted(check, list(check.judge(step)))
        if step.is_sampled and (step.step >= 0 or self._judged is None):
            self._judged = JobStep(
                step.step, step.descriptions, step.reports, initial=self._initial
            )

    def _pending(self) -> list[Finding]:
        """What is certain although the job ended before it had enough strikes."""
        sure = {
            key: mismatch
            for key, mismatch in self._first.items()
            if mismatch.is_sure_at_end and self._strikes[key][-1] and key not in self._reported
        }
        found = {key: each for key, each in sure.items() if not self._is_explained(each)}
        kinds = {each.finding.rule for each in found.values()}
        found = {key: each for key, each in found.items() if not each.explained_by & kinds}
        self._reported |= found.keys()
        self._kinds |= {each.finding.rule for each in found.values()}
        return [each.finding for each in found.values()]

    def _since_last_sample(self) -> Iterator[Finding]:
        """What the last steps show, which may be many: where they are fast, few are compared."""
        last = self._judged
        if last is None:
            return
        between = self._spots.before(first=self._first_step)
        step = JobStep(last.step, last.descriptions, last.reports, last, self._initial, between)
        for mismatch in judge_last_steps(step):
            key = (replicas.CHECK.kind, mismatch.subject)
            if key not in self._reported and not self._is_explained(mismatch):
                self._reported.add(key)
                yield mismatch.finding

    def _is_explained(self, mismatch: Mismatch) -> bool:
        """Whether a finding that was reported is the cause of this one."""
        return bool(mismatch.explained_by & self._kinds)

    def _counted(self, check: StepCheck, found: list[Mismatch]) -> Iterator[Finding]:
        """Count the strikes of a check; the findings that have enough."""
        subjects = {each.subject: each for each in found}
        for key, strikes in self._strikes.items():
            if key[0] == check.kind and key[1] not in subjects:
                strikes.append(False)
        for subject, mismatch in subjects.items():
            key = (check.kind, subject)
            strikes = self._strikes.setdefault(key, deque(maxlen=mismatch.window))
            if not any(strikes):
                self._first[key] = mismatch
            strikes.append(True)
            if sum(strikes) >= mismatch.strikes and key not in self._reported:
                self._reported.add(key)
                first = self._first[key]  # It says since when.
                if not self._is_explained(first):
                    self._kinds.add(first.finding.rule)
                    yield first.finding


def is_fault(found: Finding) -> bool:
    """Whether a finding counts for the exit code."""
    return found.status != "hypothesis"
