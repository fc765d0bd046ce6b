"""The sinks a configuration asks for, and what they ask of the session."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

from sonde.adapters.torch import device_statistics
from sonde.capture.config import CaptureConfig
from sonde.capture.requests import SelectionRequest, ToggledRequest, nearest_names
from sonde.capture.session import Subscription
from sonde.core.origin import register_origin
from sonde.dump.failure import FailureDump
from sonde.dump.layout import RankLayout
from sonde.dump.overflow import OverflowDump
from sonde.dump.overflow_origin import Origin
from sonde.dump.statistic import StatisticDump
from sonde.dump.steps import StepFiles
from sonde.dump.tensors import TensorDump
from sonde.dump.writer import Writer, open_writer

_BUDGET_SHARE = 64
_LEAST_BUDGET = 64 * 1024 * 1024
_MOST_BUDGET = 512 * 1024 * 1024


@dataclass
class DumpSinks:
    """The sinks of one dump, in the order they are told things; ``files`` is the last."""

    files: StepFiles
    writer: Writer
    subscriptions: list[Subscription] = field(default_factory=list)
    toggled: list[ToggledRequest] = field(default_factory=list)
    parting_words: list[Callable[[], None]] = field(default_factory=list)


def dump_sinks(config: CaptureConfig, rank: RankLayout, report: Callable[[str], None]) -> DumpSinks:
    """Everything ``config`` asks for, below ``rank``."""
    writer = open_writer(threads=1, budget_bytes=config.memory_budget or default_budget())
    files = StepFiles(rank, config.net_name, writer)
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
    if config.debug_mode == "overflow":
        overflow = OverflowDump(files, writer, tensors, most=config.overflow_number)
        sinks.subscriptions.append(Subscription(overflow, request, keeps_step=overflow.keeps_step))
        sinks.parting_words.append(register_origin(overflow.first_bad_op))
        sinks.parting_words.append(lambda: _say_overflow(overflow, rank, writer, report))
    elif config.debug_mode == "exception":
        failure = FailureDump(files, tensors, report)
        sinks.subscriptions.append(
            Subscription(
                failure, request, op_failed=failure.op_failed, keeps_step=failure.keeps_step
            )
        )
        sinks.parting_words.append(lambda: _say_no_failure(failure, report))
    else:
        if config.saves_statistics:
            on_device = config.stat_calc_mode == "device"
            statistics = StatisticDump(
                files,
                writer,
                categories=config.statistic_categories,
                ios=config.ios,
                report=report,
                gather=device_statistics.gather if on_device else None,
                high_precision=config.device_stat_precision_mode == "high",
            )
            sinks.subscriptions.append(Subscription(statistics, request))
        if config.saves_tensors:
            sinks.subscriptions.append(Subscription(tensors, request))
    sinks.subscriptions.append(Subscription(files, ToggledRequest(config.selection.steps)))
    if isinstance(request, SelectionRequest):
        sinks.parting_words.append(lambda: _say_unmatched(request, files, report))
    return sinks


def _request(config: CaptureConfig, sinks: DumpSinks) -> SelectionRequest | ToggledRequest:
    if config.dump_mode != "set_dump":
        return SelectionRequest(config.selection)
    request = ToggledRequest(config.selection.steps)
    sinks.toggled.append(request)
    return request


def default_budget() -> int:
    """Bytes an asynchronous dump may hold: a share of the memory, within bounds."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(_LEAST_BUDGET, min(_MOST_BUDGET, memory // _BUDGET_SHARE))


def _say_unmatched(
    request: SelectionRequest, files: StepFiles, report: Callable[[str], None]
) -> None:
    for pattern in request.unmatched():
        near = nearest_names(pattern, files.graphs)
        hint = f"; the nearest are {', '.join(near)}" if near else ""
        report(f"sonde: {pattern.text!r} matched no op of the observed steps{hint} [op-unmatched]")


def _say_no_failure(failure: FailureDump, report: Callable[[str], None]) -> None:
    if not failure.failures:
        report("sonde: no op raised an exception")


def _say_overflow(
    overflow: OverflowDump, rank: RankLayout, writer: Writer, report: Callable[[str], None]
) -> None:
    summary = overflow.summary
    if summary.first is not None:
        report(
            f"sonde: {_deed(summary.first)}\n"
            f"sonde: ops with such values: {summary.producers} made them, {summary.carriers} "
            f"passed them on; sonde show {rank.root.parent} tells more"
        )
    elif writer.error is not None:
        return  # what was seen after that, nobody knows
    elif summary.innocent is not None:
        report(
            "sonde: no op made NaN or Inf by mistake; infinities were put in on purpose, and no "
            f"NaN came of them: first by {_place(summary.innocent)}"
        )
    else:
        report("sonde: every value of the observed steps was finite")


def _deed(origin: Origin) -> str:
    """Who brought the first non-finite values about, in a sentence."""
    how = {
        "op": "were made in step {} by",
        "leaf": "came in step {} with",
        "outside": "were put in step {}, by something that is not an op, into the memory of",
    }[origin.kind].format(origin.step)
    return f"the first non-finite values {how} {_place(origin)}"


def _place(origin: Origin) -> str:
    source = origin.source
    asked = f" ({origin.asked})" if origin.asked is not None else ""
    if source is None:
        return f"{origin.op}{asked}"
    used = "" if origin.kind == "op" else ", first used"
    return f"{origin.op}{asked}{used} at {source}: {source.code}"
