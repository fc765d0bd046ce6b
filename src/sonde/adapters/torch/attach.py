"""Starts a capture: builds the sinks that a configuration asks for and attaches the adapter."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast, get_args

import torch

from sonde import kernels
from sonde.adapters.torch import private
from sonde.adapters.torch.adapter import StepBy, TorchAdapter
from sonde.adapters.torch.checkpoints.lineage import keep_lineage, note_lineage
from sonde.adapters.torch.compiled.gate import CompiledMode
from sonde.adapters.torch.debugging.training import TorchDebugging
from sonde.adapters.torch.dump_report import not_dumped
from sonde.adapters.torch.dump_signals import DumpSignals
from sonde.adapters.torch.dump_sinks import DumpSinks, dump_sinks
from sonde.adapters.torch.dump_targets import DumpTarget, covering, pattern_of, target_key
from sonde.adapters.torch.eager import matcher
from sonde.adapters.torch.eager.outside_step import Observed
from sonde.adapters.torch.processes import hide_received_tensors, observed_children
from sonde.adapters.torch.rank_lines import RankLines
from sonde.capture.config import CaptureConfig
from sonde.capture.config_text import describe
from sonde.capture.requests import Switch, ToggledRequest
from sonde.capture.session import Session, Subscription
from sonde.core import own_code
from sonde.core.coverage import Coverage
from sonde.core.errors import UsageError
from sonde.core.observation_variables import capturing, launched_rank
from sonde.core.operators.patterns import OpPattern
from sonde.core.text.number_text import size_text
from sonde.debugger.settings import DebuggerOptions
from sonde.dump.layout import rank_layout
from sonde.dump.sinks.steps import make_room, write_metadata
from sonde.dump.writing.writer import Writer
from sonde.logs import say


@dataclass
class Capture:
    """A running capture: its adapter, and the requests that can be switched meanwhile."""

    adapter: TorchAdapter
    toggled: list[ToggledRequest] = field(default_factory=list)
    writer: Writer | None = None
    debugging: TorchDebugging | None = None
    coverage: Coverage = field(default_factory=Coverage)
    sinks: DumpSinks | None = None
    report: Callable[[str], None] = say

    def hand_over(self) -> None:
        """Prepare for child processes that will do the training."""
        if self.debugging is not None:
            self.debugging.debugger.hand_over()
        self.coverage.is_delegated = True

    def flush(self) -> None:
        """Wait until everything captured so far is on disk."""
        if self.writer is not None:
            self.writer.wait_all()

    def switch(self, target: DumpTarget, pattern: OpPattern, enabled: bool) -> None:
        for request in self.toggled:
            covers = covering(self.adapter, target, pattern)
            is_on = enabled != pattern.excludes
            request.add(target_key(target), Switch(pattern, covers, is_on))


_log = logging.getLogger("sonde.capture")
_NAME = "Net"
_RUNNING: list[Capture] = []
_SWITCHES: dict[Hashable, tuple[DumpTarget, OpPattern, bool]] = {}
_LOCK = threading.Lock()
os.register_at_fork(after_in_child=_RUNNING.clear)


def checked_step_by(text: str) -> StepBy:
    """``text`` if it is a way of counting steps, else a UsageError."""
    if text in get_args(StepBy):
        return cast(StepBy, text)
    raise UsageError(f"step_by must be 'optimizer' or 'manual' (got {text!r})", slug="step-by")


def checked_observe(words: Iterable[str]) -> frozenset[Observed]:
    """``words`` if each can be observed besides the training, else a UsageError."""
    found = frozenset((words,) if isinstance(words, str) else words)
    for word in found - set(get_args(Observed)):
        raise UsageError(
            f"observe takes 'evaluation' and 'data' (got {word!r})", slug="observe-what"
        )
    return cast(frozenset[Observed], found)


@contextlib.contextmanager
def attach(
    config: CaptureConfig | None,
    *,
    starts_at_once: bool,
    step_by: StepBy = "optimizer",
    rank: int | None = None,
    has_other_ranks: bool = False,
    debugger: DebuggerOptions | None = None,
    compiled: CompiledMode = "observe",
    observe: Collection[Observed] = (),
    subscriptions: Sequence[Subscription] = (),
) -> Iterator[Capture]:
    """Observe the torch program run in this block as ``config`` says (None: observe nothing).

    ``rank`` is the rank of this process; None: see `current_rank`. ``has_other_ranks``: there are
    more, also if neither a launcher nor a process group says so. ``debugger``: connect to a
    debugger. ``compiled``: how code of torch.compile is observed, see ``compiled/gate``.
    ``observe``: what belongs to the steps although it is not training, see ``eager/outside_step``.
    ``subscriptions``: more sinks, for the ops of this process alone. Only one capture runs at a
    time: a second one inside the first is a UsageError.
    """
    same: dict[str, Any] = {"step_by": step_by, "compiled": compiled, "observe": observe}
    make_adapter = partial(TorchAdapter, starts_at_once=starts_at_once, **same)
    has_others = has_other_ranks or (debugger is not None and debugger.world_size > 1)
    capture = _start(config, rank, has_others, debugger, make_adapter, subscriptions)
    try:
        with ExitStack() as undo:
            _install(capture, config, undo)
            if config is not None or debugger is not None:
                undo.enter_context(capturing())
                in_child = partial(attach, config, starts_at_once=False, **same)
                undo.enter_context(observed_children(in_child, debugger, capture.hand_over))
            yield capture
    finally:
        if capture in _RUNNING:
            _RUNNING.remove(capture)


def _start(
    config: CaptureConfig | None,
    rank: int | None,
    has_others: bool,
    debugger: DebuggerOptions | None,
    make_adapter: Callable[..., TorchAdapter],
    more: Sequence[Subscription],
) -> Capture:
    """Build the capture that runs from now on; UsageError if there is one already."""
    with _LOCK:
        if _RUNNING:
            raise UsageError(
                "a capture is running already; leave its block before starting another",
                slug="capture-twice",
            )
        lines = RankLines(current_rank() if rank is None else rank, has_others)
        with private.unobserved():
            capture = _build(config, lines, debugger, make_adapter, more)
        _RUNNING.append(capture)
    return capture


def _install(capture: Capture, config: CaptureConfig | None, undo: ExitStack) -> None:
    """Connect to the debugger, if there is one, and observe until ``undo`` is closed."""
    debugging = capture.debugging
    if debugging is not None:
        undo.push(debugging.leave)
        debugging.join(capture.adapter, undo)
    undo.enter_context(own_code.configured(() if config is None else config.own_packages))
    hide_received_tensors(undo)
    if capture.sinks is not None:
        note_lineage(undo)
        keep_lineage(capture.sinks.files.rank.metadata, undo)
        _measure_signals(capture, capture.sinks, config, undo)
    undo.enter_context(capture.adapter.attach())


def _measure_signals(
    capture: Capture, sinks: DumpSinks, config: CaptureConfig | None, undo: ExitStack
) -> None:
    """Measure the signals of each step, if the dump has Parquet files with the columns for them."""
    has_columns = config is not None and {"avg", "l2norm"} <= {*config.statistic_categories}
    if sinks.parquet is not None and has_columns:
        DumpSignals(capture.adapter, sinks.parquet, capture.report).install(undo)


def is_running() -> bool:
    """Whether a capture runs."""
    return bool(_RUNNING)


def running_debugger() -> TorchDebugging | None:
    """The debugger of the capture that runs, if it has one."""
    return next((each.debugging for each in _RUNNING if each.debugging is not None), None)


def running_dumps() -> list[DumpSinks]:
    """The sinks of the captures that run and dump."""
    return [each.sinks for each in _RUNNING if each.sinks is not None]


def running_adapter() -> TorchAdapter | None:
    """The adapter of the capture that runs; None without one."""
    return _RUNNING[0].adapter if _RUNNING else None


def end_step() -> None:
    """End the running step of the running capture; do nothing without a capture."""
    for capture in _RUNNING:
        capture.adapter.end_step()


def set_dump(target: DumpTarget, *, enabled: bool = True) -> None:
    """Switch the dump of ``target`` on or off (``dump_mode: 2``) for the ops that run from now on.

    ``target`` is a module (all ops inside it, forward and backward), a class of modules or
    optimizers, a function of torch, or a pattern as in ``kernels``. It may be called before a
    capture starts, and holds for later ones too.
    """
    pattern = pattern_of(target)
    _SWITCHES.pop(target_key(target), None)
    _SWITCHES[target_key(target)] = (target, pattern, enabled)
    for capture in _RUNNING:
        capture.switch(target, pattern, enabled)
        if capture.toggled:
            capture.adapter.refresh()


def _build(
    config: CaptureConfig | None,
    lines: RankLines,
    debugger: DebuggerOptions | None,
    make_adapter: Callable[..., TorchAdapter],
    more: Sequence[Subscription],
) -> Capture:
    """A capture of the rank of ``lines`` that dumps, is debugged, both, or does nothing."""
    number = lines.rank
    _log_settings(config, lines.rank, debugger)
    excluded = None
    if config is not None and not config.selection.wants_rank(number):
        excluded, config = config, None
    name = _NAME if config is None else config.net_name
    initial_step = 0 if config is None else config.initial_step
    coverage = Coverage()
    sinks = None if config is None else _dump_sinks(config, lines, coverage)
    subscriptions = [] if sinks is None else sinks.subscriptions
    subscriptions.extend(more)
    debugging = None
    if debugger is not None:
        debugging = TorchDebugging(debugger, number, lines, name=name, initial_step=initial_step)
        subscriptions.extend(debugging.debugger.subscriptions())
    if subscriptions:
        kernels.thread_limit(torch.get_num_threads())
    adapter = make_adapter(Session(subscriptions, initial_step, lines, coverage), name=name)
    if excluded is not None:
        why = f"rank {number} is not in support_device {sorted(excluded.ranks or ())}"
        adapter.at_close(lambda: None if coverage.is_delegated else lines(not_dumped(why)))
    if sinks is None:
        return Capture(adapter, debugging=debugging, coverage=coverage)
    for report in sinks.closing_reports:
        adapter.at_close(report)
    capture = Capture(adapter, sinks.toggled, sinks.writer, debugging, coverage, sinks, lines)
    for target, pattern, enabled in _SWITCHES.values():
        capture.switch(target, pattern, enabled)
    return capture


def _log_settings(
    config: CaptureConfig | None, rank: int, debugger: DebuggerOptions | None
) -> None:
    """Log what was asked for, and which of the native parts are used."""
    if not _log.isEnabledFor(logging.INFO):
        return
    if config is not None:
        is_wanted = config.selection.wants_rank(rank)
        _log.info(
            "rank %d %s: %s", rank, "dumps" if is_wanted else "is not to dump", describe(config)
        )
        _log.debug("the dump configuration: %s", config.text)
    if debugger is not None:
        budget = size_text(debugger.budget_bytes)
        _log.info("the debugger server is at %s; kept values: %s", debugger.address, budget)
    native = "by native code" if matcher.load() is not None else "in Python, which is slower"
    _log.info("ops are recognised %s, statistics computed by %s", native, kernels.current_path())


def _dump_sinks(config: CaptureConfig, lines: RankLines, coverage: Coverage) -> DumpSinks:
    """The sinks that write the dump of a rank; its directory is made ready."""
    rank = rank_layout(config.path, lines.rank)
    make_room(rank, lines)
    sinks = dump_sinks(config, rank, coverage, lines)
    write_metadata(rank, config.text, program_facts())
    return sinks


def current_rank() -> int:
    """This process's rank: the process group's, else the launcher's, else 0."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank()
    return launched_rank(os.environ) or 0


def program_facts() -> dict[str, str]:
    """The program that makes a dump, for its metadata."""
    import sonde

    device = "GPU" if torch.cuda.is_available() else "CPU"
    return {
        "device_target": device,
        "framework": "torch",
        "framework_version": torch.__version__,
        "sonde_version": sonde.__version__,
    }
