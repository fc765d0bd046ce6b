"""What a dump reports at its end: what was written, or why nothing was, and the verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import get_args

from sonde.capture.requests import SelectionRequest, ToggledRequest
from sonde.core.coverage import Coverage
from sonde.core.graph import Kind
from sonde.core.text.number_text import count_text, size_text
from sonde.core.text.problem_line import ProblemLine
from sonde.core.text.terminal_text import quoted
from sonde.dump.layout import RankLayout
from sonde.dump.sinks.failure import FailureDump
from sonde.dump.sinks.overflow import OverflowDump, OverflowSummary
from sonde.dump.sinks.steps import StepFiles
from sonde.watch.hit_text import origin_place

_SHOWN_PATTERNS = 3


def not_dumped(why: str) -> str:
    """The line of a process that dumped nothing."""
    return ProblemLine(f"sonde: nothing was dumped: {why}", slug="nothing-dumped")


@dataclass(slots=True, eq=False)
class DumpReport:
    """Reports the end of a dump. ``overflow`` and ``failure``: the sink of such a dump.

    A process whose children do the training reports nothing: they report for themselves.
    """

    files: StepFiles
    request: SelectionRequest | ToggledRequest
    coverage: Coverage
    report: Callable[[str], None]
    overflow: OverflowDump | None = None
    failure: FailureDump | None = None

    def print(self) -> None:
        coverage = self.coverage
        if coverage.is_delegated and not coverage.has_observed:
            return
        if self.files.written.steps.ranges:
            if self.files.rank.root.exists():  # Somebody may have removed it meanwhile.
                self.report(self._written())
        elif self._is_unexplained:
            self.report(not_dumped(self._why_not()))
        if self.failure is not None and not self.failure.ops and coverage.has_observed:
            self.report("sonde: no op raised an exception")
        if self.overflow is not None:
            _print_verdict(self.overflow, self.files.rank, coverage, self.report)

    @property
    def _is_unexplained(self) -> bool:
        """Whether no other line says why nothing was dumped: a failure, no exception, a verdict."""
        coverage = self.coverage
        if coverage.has_failed or self.overflow is not None:
            return False
        return self.failure is None or not coverage.has_observed

    def _written(self) -> str:
        written = self.files.written
        steps = str(written.steps)
        steps = f"step {steps}" if steps.isdecimal() else f"steps {steps}"
        what = "wrote the graphs of" if self.files.graphs_only else "dumped"
        # After a failure it is not known of which ops there are files.
        ops = "" if self.coverage.has_failed else f"{self._contents()}, "
        return (
            f"sonde: {what} {steps}: {ops}"
            f"{count_text(written.files, 'file')}, {size_text(written.nbytes)} in "
            f"{self.files.rank.root}"
        )

    def _contents(self) -> str:
        """How many ops the dump has and, if ops were selected, how many parameters and inputs."""
        if self.overflow is not None:
            return count_text(len(self.overflow.ops), "op")
        if self.failure is not None:
            return count_text(len(self.failure.ops), "op")
        graphs = self.files.graphs
        if self.files.graphs_only:
            return count_text(len({op.name for graph in graphs for op in graph.ops}), "op")
        wanted = {node.name: node.kind for each in graphs for node in self.request.wanted_in(each)}
        counts = Counter(wanted.values())
        is_everything = (
            isinstance(self.request, SelectionRequest) and self.request.selection.ops is None
        )
        kinds: tuple[Kind, ...] = ("op",) if is_everything else get_args(Kind)
        texts = [count_text(counts[kind], kind) for kind in kinds if counts[kind]]
        return ", ".join(texts) or count_text(0, "op")

    def _why_not(self) -> str:
        coverage = self.coverage
        if coverage.unchosen_gaps:
            return "; ".join(map(str, coverage.unchosen_gaps))
        if isinstance(self.request, ToggledRequest):
            if not self.request.has_switches:
                return "dump_mode is 2, and the program did not call sonde.set_dump"
            return "no op that sonde.set_dump switched on ran in the observed steps"
        patterns = [quoted(str(each)) for each in self.request.selection.ops or ()]
        if not patterns:
            return "the observed steps had no tensors that could be dumped"
        more = ", ..." if len(patterns) > _SHOWN_PATTERNS else ""
        named = ", ".join(patterns[:_SHOWN_PATTERNS])
        return f"no op of the observed steps is selected by {named}{more}"


def _print_verdict(
    overflow: OverflowDump, rank: RankLayout, coverage: Coverage, report: Callable[[str], None]
) -> None:
    """Write and report the verdict on the run."""
    summary = overflow.summary
    overflow.write_verdict()
    verdict = summary.verdict(coverage)
    if verdict == "unknown":
        report(_no_verdict(summary, coverage))
    elif (headline := summary.headline) is not None:
        report(f"sonde: {headline}")
        report(
            f"sonde: ops with such values: {summary.producers} made them, {summary.carriers} "
            f"passed them on; sonde show {rank.root.parent} tells more{_but(coverage)}"
        )
    elif summary.harmless is not None:
        report(
            "sonde: no op made NaN or Inf by mistake: those found reached neither the loss nor "
            f"an update of weights; first by {origin_place(summary.harmless)}{_but(coverage)}"
        )
    elif coverage.steps:
        report(f"sonde: every value of the observed steps was finite{_but(coverage)}")
    else:
        report(f"sonde: every value that was observed was finite; no step ended{_but(coverage)}")


def _no_verdict(summary: OverflowSummary, coverage: Coverage) -> str:
    """Why it is not known whether the run is free of NaN and Inf, and what is known."""
    why = "; ".join(map(str, coverage.unchosen_gaps))
    if not coverage.has_observed:
        text = f"sonde: nothing is known about NaN and Inf: {why}"
        return ProblemLine(text, slug="nothing-observed")
    steps = count_text(coverage.steps + coverage.incomplete_steps, "step")
    found = "was finite" if summary.harmless is None else "that was not finite did no harm"
    text = (
        f"sonde: nothing is known about NaN and Inf in the whole run: {why}; in the {steps} that "
        f"were observed, at least in part, every observed value {found}"
    )
    return ProblemLine(text, slug="partly-observed")


def _but(coverage: Coverage) -> str:
    """The parts of the run that were not observed, for the end of a sentence."""
    return f" ({'; '.join(map(str, coverage.gaps))})" if coverage.gaps else ""
