"""Builds the sinks that a configuration asks for, with their requests."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from sonde.adapters.torch.tensors import device_statistics
from sonde.capture.config import CaptureConfig
from sonde.capture.requests import SelectionRequest, ToggledRequest, nearest_names
from sonde.capture.session import Subscription
from sonde.core.coverage import Coverage, Gap
from sonde.core.running_training import register_origin
from sonde.core.text.number_text import count_text, size_text
from sonde.dump.layout import RankLayout
from sonde.dump.sinks.failure import FailureDump
from sonde.dump.sinks.overflow import OverflowDump, OverflowSummary
from sonde.dump.sinks.statistic import StatisticDump
from sonde.dump.sinks.steps import StepFiles
from sonde.dump.sinks.tensors import TensorDump
from sonde.dump.writing.free_memory import most_bytes
from sonde.dump.writing.python_writer import PythonWriter
from sonde.dump.writing.writer import Writer, open_writer
from sonde.watch.hit_text import origin_finding, origin_place

_log = logging.getLogger("sonde.dump")
_BUDGET_SHARE = 64
_LEAST_BUDGET = 64 * 1024 * 1024
_LEAST_SHARE = 8
_MOST_BUDGET = 512 * 1024 * 1024


@dataclass
class DumpSinks:
    """The sinks of one dump, in the order they are called; ``files`` is the last."""

    files: StepFiles
    writer: Writer
    subscriptions: list[Subscription] = field(default_factory=list)
    toggled: list[ToggledRequest] = field(default_factory=list)
    closing_reports: list[Callable[[], None]] = field(default_factory=list)


def dump_sinks(
    config: CaptureConfig, rank: RankLayout, coverage: Coverage, report: Callable[[str], None]
) -> DumpSinks:
    """The sinks that ``config`` asks for; they write below ``rank``. At the end they write what
    ``coverage`` says of the run."""
    budget = config.memory_budget or default_budget()
    writer = open_writer(threads=1, budget_bytes=budget)
    is_slow = isinstance(writer, PythonWriter)
    how = "in Python, each at once" if is_slow else "by native code, in the background"
    _log.info("files are written %s; at most %s wait in memory", how, size_text(budget))
    files = StepFiles(rank, config.net_name, writer, report)
    sinks = DumpSinks(files, writer)
    request = _request(config, sinks)
    tensors = TensorDump(
        files,
        writer,
        ios=config.ios if config.debug_mode != "exception" else frozenset({"input"}),
        memory_order=not config.transpose_to_nchw,
        kernel_args=config.save_kernel_args,
        synchronous=not config.asynchronous,
        sample=config.sample_num if config.sample_mode else 0,
        report=report,
    )
    sees_all = config.dump_mode == "all" and isinstance(request, SelectionRequest)
    if not sees_all:
        coverage.add(Gap("ops_not_selected"))
    sinks.closing_reports.append(lambda: files.write_coverage(coverage))
    if config.debug_mode == "overflow":
        overflow = OverflowDump(
            files,
            writer,
            tensors,
            most=config.overflow_number,
            sees_all=sees_all,
            coverage=coverage,
        )
        sinks.subscriptions.append(Subscription(overflow, request, keeps_step=overflow.keeps_step))
        sinks.closing_reports.append(register_origin(overflow.first_bad_op))
        sinks.closing_reports.append(lambda: _report_overflow(overflow, rank, coverage, report))
    elif config.debug_mode == "exception":
        failure = FailureDump(files, tensors, report)
        sinks.subscriptions.append(
            Subscription(failure, request, failure.op_failed, failure.keeps_step)
        )
        sinks.closing_reports.append(lambda: _report_no_failure(failure, report))
    else:
        if config.saves_statistics:
            statistics = _statistics(config, files, writer, report)
            sinks.subscriptions.append(Subscription(statistics, request))
        if config.saves_tensors:
            sinks.subscriptions.append(Subscription(tensors, request))
    sinks.subscriptions.append(Subscription(files, ToggledRequest(config.selection.steps)))
    if isinstance(request, SelectionRequest):
        sinks.closing_reports.append(lambda: _report_unmatched(request, files, report))
    # Last: the requests remember what they were asked.
    sinks.closing_reports.append(lambda: _log_matches(request, files))
    return sinks


def _statistics(
    config: CaptureConfig, files: StepFiles, writer: Writer, report: Callable[[str], None]
) -> StatisticDump:
    on_device = config.stat_calc_mode == "device"
    return StatisticDump(
        files,
        writer,
        categories=config.statistic_categories,
        ios=config.ios,
        report=report,
        gather=device_statistics.gather if on_device else None,
        high_precision=config.device_stat_precision_mode == "high",
    )


def _request(config: CaptureConfig, sinks: DumpSinks) -> SelectionRequest | ToggledRequest:
    if config.dump_mode != "set_dump":
        return SelectionRequest(config.selection)
    request = ToggledRequest(config.selection.steps)
    sinks.toggled.append(request)
    return request


def default_budget() -> int:
    """Bytes an asynchronous dump may hold: a share of the memory, within bounds."""
    memory = most_bytes()
    least = min(_LEAST_BUDGET, memory // _LEAST_SHARE)
    return max(least, min(_MOST_BUDGET, memory // _BUDGET_SHARE))


def _log_matches(request: SelectionRequest | ToggledRequest, files: StepFiles) -> None:
    """Log which ops of the written graphs were wanted."""
    if not _log.isEnabledFor(logging.INFO):
        return
    for graph in files.graphs:
        names = [node.name for node in graph if request.wants_op(node)]
        _log.info("graph %d: %d of %d ops matched", graph.id, len(names), len(graph))
        _log.debug("graph %d: matched: %s", graph.id, ", ".join(names))


def _report_unmatched(
    request: SelectionRequest, files: StepFiles, report: Callable[[str], None]
) -> None:
    for pattern in request.unmatched():
        near = nearest_names(pattern, files.graphs)
        hint = f"; the nearest are {', '.join(near)}" if near else ""
        report(f"sonde: {pattern.text!r} matched no op of the observed steps{hint} [op-unmatched]")


def _report_no_failure(failure: FailureDump, report: Callable[[str], None]) -> None:
    if not failure.failures:
        report("sonde: no op raised an exception")


def _report_overflow(
    overflow: OverflowDump, rank: RankLayout, coverage: Coverage, report: Callable[[str], None]
) -> None:
    """Write and report the verdict on the run. A process whose children do the training has none:
    they report for themselves."""
    summary = overflow.summary
    if coverage.is_delegated and not coverage.has_observed:
        return
    overflow.write_verdict()
    verdict = summary.verdict(coverage)
    if verdict == "unknown":
        report(_no_verdict(summary, coverage))
    elif summary.fault is not None:
        report(f"sonde: the first {origin_finding(summary.fault).message}")
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
        return f"sonde: nothing is known about NaN and Inf: {why} [nothing-observed]"
    steps = count_text(coverage.steps + coverage.incomplete_steps, "step")
    found = "was finite" if summary.harmless is None else "that was not finite did no harm"
    return (
        f"sonde: nothing is known about NaN and Inf in the whole run: {why}; in the {steps} that "
        f"were observed, at least in part, every observed value {found} [partly-observed]"
    )


def _but(coverage: Coverage) -> str:
    """The parts of the run that were not observed, for the end of a sentence."""
    return f" ({'; '.join(map(str, coverage.gaps))})" if coverage.gaps else ""
