"""Builds the sinks that a configuration asks for, with their requests."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sonde.adapters.torch.dump_report import DumpReport
from sonde.adapters.torch.tensors import device_statistics
from sonde.capture.config import CaptureConfig
from sonde.capture.requests import SelectionRequest, ToggledRequest, UnmatchedPatterns
from sonde.capture.session import Subscription
from sonde.core.coverage import Coverage, Gap
from sonde.core.finding import Finding
from sonde.core.running_training import register_origin
from sonde.core.text.number_text import size_text
from sonde.core.text.problem_line import ProblemLine
from sonde.dump.layout import RankLayout
from sonde.dump.sinks.failure import FailureDump
from sonde.dump.sinks.findings import write_findings
from sonde.dump.sinks.overflow import OverflowDump
from sonde.dump.sinks.statistic import StatisticDump, StatisticForm
from sonde.dump.sinks.statistic_csv import StatisticCsv
from sonde.dump.sinks.statistic_parquet import StatisticParquet
from sonde.dump.sinks.steps import StepFiles
from sonde.dump.sinks.tensors import TensorDump
from sonde.dump.statistic_store import engine
from sonde.dump.statistic_store.row_writer import StoreSettings
from sonde.dump.writing.free_memory import most_bytes
from sonde.dump.writing.python_writer import PythonWriter
from sonde.dump.writing.writer import Writer, open_writer

_log = logging.getLogger("sonde.dump")
_BUDGET_SHARE = 64
_LEAST_BUDGET = 64 * 1024 * 1024
_LEAST_SHARE = 8
_MOST_BUDGET = 512 * 1024 * 1024


@dataclass
class DumpSinks:
    """The sinks of one dump, in the order they are called."""

    files: StepFiles
    writer: Writer
    subscriptions: list[Subscription] = field(default_factory=list)
    toggled: list[ToggledRequest] = field(default_factory=list)
    closing_reports: list[Callable[[], None]] = field(default_factory=list)
    overflow: OverflowDump | None = None
    parquet: StatisticParquet | None = None

    def keep_findings(self, findings: Sequence[Finding], steps: int, cause: Finding | None) -> None:
        """Write what a diagnosis found; ``cause``: the finding that explains NaN and Inf."""
        write_findings(self.files.rank, findings, steps)
        if self.overflow is not None:
            self.overflow.summary.cause = cause


def dump_sinks(
    config: CaptureConfig, rank: RankLayout, coverage: Coverage, report: Callable[[str], None]
) -> DumpSinks:
    """The sinks that ``config`` asks for; they write below ``rank``. At the end they write what
    ``coverage`` says of the run."""
    writer = _open_writer(config)
    graphs_only = config.saved_data == "graph"
    files = StepFiles(rank, config.net_name, writer, report, graphs_only=graphs_only)
    sinks = DumpSinks(files, writer)
    request = _request(config, sinks)
    sees_all = config.dump_mode == "all" and isinstance(request, SelectionRequest)
    if not sees_all:
        coverage.add(Gap("ops_not_selected"))
    sinks.closing_reports.append(lambda: files.write_coverage(coverage))
    coverage.selected_steps = str(config.selection.steps)
    end = DumpReport(files, request, coverage, report)
    tensors = _tensors(config, files, writer, report)
    if config.debug_mode == "overflow":
        most = config.overflow_number
        end.overflow = OverflowDump(
            files, writer, tensors, most=most, sees_all=sees_all, coverage=coverage
        )
        _add_overflow(sinks, end.overflow, request)
    elif config.debug_mode == "exception":
        end.failure = failure = FailureDump(files, tensors, report)
        sinks.subscriptions.append(
            Subscription(failure, request, failure.op_failed, failure.keeps_step)
        )
    else:
        if config.saves_statistics:
            form = _statistic_form(config, files, writer, report)
            if isinstance(form, StatisticParquet):
                sinks.parquet = form
            sinks.subscriptions.append(Subscription(_statistics(config, form, report), request))
        if config.saves_tensors:
            sinks.subscriptions.append(Subscription(tensors, request))
    sinks.subscriptions.append(Subscription(files, ToggledRequest(config.selection.steps)))
    sinks.closing_reports.append(end.print)
    sinks.closing_reports.append(lambda: _log_matches(request, files))
    unmatched = UnmatchedPatterns(request, report)
    sinks.subscriptions.append(Subscription(unmatched, ToggledRequest(config.selection.steps)))
    return sinks


def _open_writer(config: CaptureConfig) -> Writer:
    budget = config.memory_budget or default_budget()
    writer = open_writer(threads=1, budget_bytes=budget)
    is_slow = isinstance(writer, PythonWriter)
    how = "in Python, each at once" if is_slow else "by native code, in the background"
    _log.info("files are written %s; at most %s wait in memory", how, size_text(budget))
    return writer


def _add_overflow(
    sinks: DumpSinks, overflow: OverflowDump, request: SelectionRequest | ToggledRequest
) -> None:
    """Subscribe the overflow dump, and let callbacks ask it for the op of origin."""
    sinks.overflow = overflow
    sinks.subscriptions.append(Subscription(overflow, request, keeps_step=overflow.keeps_step))
    sinks.closing_reports.append(register_origin(overflow.first_bad_op))


def _tensors(
    config: CaptureConfig, files: StepFiles, writer: Writer, report: Callable[[str], None]
) -> TensorDump:
    return TensorDump(
        files,
        writer,
        ios=config.ios if config.debug_mode != "exception" else frozenset({"input"}),
        memory_order=not config.transpose_to_nchw,
        kernel_args=config.save_kernel_args,
        synchronous=not config.asynchronous,
        sample=config.sample_num if config.sample_mode else 0,
        keeps_useless=config.keeps_useless_outputs,
        report=report,
    )


def _statistics(
    config: CaptureConfig, form: StatisticForm, report: Callable[[str], None]
) -> StatisticDump:
    on_device = config.stat_calc_mode == "device"
    return StatisticDump(
        form,
        categories=config.statistic_categories,
        ios=config.ios,
        report=report,
        gather=device_statistics.gather if on_device else None,
        high_precision=config.device_stat_precision_mode == "high",
        keeps_useless=config.keeps_useless_outputs,
    )


def _statistic_form(
    config: CaptureConfig, files: StepFiles, writer: Writer, report: Callable[[str], None]
) -> StatisticForm:
    """Parquet files if they are asked for and can be written, else ``statistic.csv``."""
    if config.statistic_format == "parquet":
        if engine.is_installed():
            budget = config.memory_budget or default_budget()
            settings = StoreSettings(
                config.statistic_categories, budget, full_steps=config.statistic_full_steps
            )
            return StatisticParquet(files, settings)
        text = (
            "sonde: statistics are written as statistic.csv, because DuckDB, which writes Parquet "
            f"files, is not installed: {engine.ADVICE}"
        )
        report(ProblemLine(text, slug="statistics-as-csv"))
    return StatisticCsv(files, writer, config.statistic_categories)


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
        names = [node.name for node in request.wanted_in(graph) if node.kind == "op"]
        _log.info("graph %d: %d of %d ops matched", graph.id, len(names), len(graph))
        _log.debug("graph %d: matched: %s", graph.id, ", ".join(names))
