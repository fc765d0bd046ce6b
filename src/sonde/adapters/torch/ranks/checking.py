"""Checks a training over its ranks: reports each step of this rank (``sonde.ranks``)."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import device_mesh
from torch.distributed.algorithms.join import Join

from sonde.adapters.torch.adapter import ignore_warning_about_hooks
from sonde.adapters.torch.attach import current_rank
from sonde.adapters.torch.eager.step_end import StepHooks
from sonde.adapters.torch.guard import FailureGuard
from sonde.adapters.torch.processes import observed_children
from sonde.adapters.torch.rank_lines import RankLines
from sonde.adapters.torch.ranks.communication.collectives import CollectiveCalls
from sonde.adapters.torch.ranks.communication.messages import MessageCalls
from sonde.adapters.torch.ranks.communication.pending_works import AwaitedWorks
from sonde.adapters.torch.ranks.gradients.clips import ClipCalls
from sonde.adapters.torch.ranks.non_finite.search import NonFiniteSearch
from sonde.adapters.torch.ranks.private import default_store, limit_recorder
from sonde.adapters.torch.ranks.samplers import SamplerCalls
from sonde.adapters.torch.ranks.sending.job_server import JobServer, starts_server
from sonde.adapters.torch.ranks.sending.sender import ReportSender
from sonde.adapters.torch.ranks.step_report import StepReporter
from sonde.adapters.torch.steps.step_numbers import StepNumbers
from sonde.core.errors import UsageError
from sonde.core.interruption import pass_on
from sonde.core.patching import wrap
from sonde.core.text.problem_line import ProblemLine
from sonde.debugger.settings import DebuggerOptions
from sonde.logs import say
from sonde.ranks.finding_text import inferred_line, summary_line
from sonde.ranks.options import RankOptions
from sonde.ranks.report import RankReport

_log = logging.getLogger("sonde.capture")
_RUNNING: list[RankChecking] = []
os.register_at_fork(after_in_child=_RUNNING.clear)


@contextmanager
def check_ranks(
    options: RankOptions,
    *,
    rank: int | None = None,
    has_other_ranks: bool = False,
    debugger: DebuggerOptions | None = None,
    is_observed: bool = False,
) -> Iterator[None]:
    """Compare the ranks of the training that runs in this block. ``rank``, ``has_other_ranks`` and
    ``debugger`` are as in ``processes``: children of a program get them. ``is_observed``: the ops
    of the training are observed, so that no step is executed again to find where NaN begin."""
    if _RUNNING:
        raise UsageError(
            "the ranks are compared already; leave that block before starting another",
            slug="ranks-twice",
        )
    checking = RankChecking(
        options, rank, has_other_ranks, is_debugged=debugger is not None, is_observed=is_observed
    )
    _RUNNING.append(checking)
    try:
        with ExitStack() as undo:
            checking.install(undo)
            in_child = partial(check_ranks, options, is_observed=is_observed)
            undo.enter_context(observed_children(in_child, None, checking.hand_over))
            try:
                yield
            except BaseException as error:
                checking.close(error)
                raise
            checking.close()
    finally:
        if checking in _RUNNING:
            _RUNNING.remove(checking)


class RankChecking:
    """The checks of one rank. Its hooks run in the training thread; a failure of Sonde is reported
    once and ends the checks, not the training. A forked child does nothing."""

    def __init__(
        self,
        options: RankOptions,
        rank: int | None,
        has_other_ranks: bool,
        *,
        is_debugged: bool = False,
        is_observed: bool = False,
    ) -> None:
        self._options = options
        self._is_debugged = is_debugged
        self._lines = RankLines(current_rank() if rank is None else rank, has_other_ranks)
        self._shield = FailureGuard(self._failed)
        self._sender: ReportSender | None = None
        search = None if is_observed else NonFiniteSearch(self._search_failed, self._shield)
        self._steps = StepReporter(self._send, options, self._shield, search)
        self._hooks = StepHooks(
            self._optimizer_begins,
            self._optimizer_left,
            self._step_ended,
            self._elsewhere,
            self._scaler_skipped,
        )
        self._numbers = StepNumbers(self._steps.begin_at, lambda: self._steps.step, self._failed)
        self._works = AwaitedWorks(self._shield)
        self._collectives = CollectiveCalls(
            self._send,
            lambda: self._steps.step,
            lambda: self._steps.is_sampled,
            self._steps.timed,
            self._steps.loss_reduced,
            self._steps.tensors.reduced.given,
            self._steps.unfinished,
            self._works,
            self._steps.marks,
            self._shield,
        )
        self._messages = MessageCalls(
            self._send,
            lambda: self._steps.step,
            lambda: self._steps.is_sampled,
            self._steps.timed,
            self._works,
            self._shield,
        )
        self._clips = ClipCalls(
            self._steps.gradients_ready,
            self._steps.clipped,
            self._steps.squares,
            self._shield,
        )
        self._samplers = SamplerCalls(self._send, self._shield)
        self._pid = os.getpid()
        self._server: JobServer | None = None
        self._is_off = False
        self._is_handed_over = False

    def install(self, undo: ExitStack) -> None:
        """Follow the training until ``undo`` is closed."""
        if not self._is_debugged and starts_server():
            self._server = JobServer(self._options.findings_file)
        ignore_warning_about_hooks(undo)
        limit_recorder(undo)
        wrap(dist.distributed_c10d, "init_process_group", self._connecting, undo)
        wrap(dist, "init_process_group", self._connecting, undo)
        wrap(device_mesh, "init_process_group", self._connecting, undo)
        wrap(dist, "destroy_process_group", self._disconnecting, undo)
        wrap(dist.distributed_c10d, "destroy_process_group", self._disconnecting, undo)
        wrap(Join, "__exit__", self._joining, undo)
        self._steps.install(undo)
        self._hooks.install(undo)
        self._numbers.install(undo)
        self._works.install(undo)
        self._collectives.install(undo)
        self._messages.install(undo)
        self._clips.install(undo)
        self._samplers.install(undo)
        if dist.is_initialized():
            self._connect()

    def hand_over(self) -> None:
        """Child processes will do the training."""
        self._is_handed_over = True

    def close(self, error: BaseException | None = None) -> None:
        """Send the last reports, and wait a moment for the summary of the server. ``error``: what
        ended the training."""
        if os.getpid() != self._pid:
            return
        sender = self._sender
        if sender is None:
            if self._server is not None:
                self._server.leave()
            is_said = not self._is_handed_over and not self._options.is_default
            if is_said and not self._is_off:
                self._lines(
                    ProblemLine(
                        "sonde: --check-ranks had nothing to compare: the program has made no "
                        "process group with several ranks; start it with torchrun",
                        slug="one-rank",
                    )
                )
            return
        with self._shield:
            self._steps.finish()
            sender.close(error)
            # Under the debugger, which compares ranks without being asked, only findings are said.
            if sender.rank == 0 and (sender.findings or not self._options.is_default):
                if self._is_debugged:
                    say(summary_line(sender.findings, sender.judged_steps, sender.world_size))
                if inferred := self._steps.tensors.layout.inferred:
                    say(inferred_line(inferred))

    # ---------------------------------------------------------------- connecting

    def _connecting(self, original: Any) -> Any:
        def init_process_group(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            with self._shield:
                self._connect()
            return result

        return init_process_group

    def _disconnecting(self, original: Any) -> Any:
        def destroy_process_group(group: Any = None) -> Any:
            with self._shield:
                if group is None or group is dist.group.WORLD:
                    self._steps.finish()
                    if self._sender is not None:
                        self._sender.settle()
            return original(group)

        return destroy_process_group

    def _joining(self, original: Any) -> Any:
        def leave(join: Any, *args: Any) -> Any:
            result = original(join, *args)
            with self._shield:
                if self._steps.is_on:
                    self._steps.finish()
                    self._lines(
                        "sonde: ranks make different numbers of steps in a block of join(): the "
                        f"steps from {self._steps.step} on are not compared"
                    )
            return result

        return leave

    def _connect(self) -> None:
        if self._sender is not None or self._is_off or os.getpid() != self._pid:
            return
        if dist.get_world_size() < 2:
            return
        self._lines.rank = dist.get_rank()
        store = default_store()
        self._sender = ReportSender(
            self._options,
            store,
            self._lines,
            self._steps.marks,
            self._steps.buckets,
            is_debugged=self._is_debugged,
            server=self._server,
        )
        self._steps.begin(self._sender.rank, self._sender.world_size)
        self._sender.meet()

    def _send(self, report: RankReport) -> None:
        if self._sender is not None:
            self._sender.send(report)

    # --------------------------------------------------------------------- hooks

    def _optimizer_begins(self, optimizer: torch.optim.Optimizer) -> None:
        if self._is_idle or self._hooks.depth > 1:
            return
        with self._shield:
            self._numbers.find_trainer()
            has_closure = self._hooks.closure is not None
            self._steps.optimizer_begins(optimizer, has_closure=has_closure)

    def _optimizer_left(self, optimizer: torch.optim.Optimizer) -> None:
        """Weights are compared when the whole step has ended."""

    def _scaler_skipped(self, optimizer: Any) -> None:
        if not self._is_idle and isinstance(optimizer, torch.optim.Optimizer):
            with self._shield:
                self._steps.skipped(optimizer)

    def _step_ended(self) -> None:
        if not self._is_idle:
            with self._shield:
                self._steps.ended()

    def _elsewhere(self, name: str) -> None:
        if not self._is_off:
            self._is_off = True
            self._lines(
                ProblemLine(
                    f"sonde: an optimizer steps in thread {name!r}: its rank is not compared",
                    slug="other-thread",
                )
            )

    @property
    def _is_idle(self) -> bool:
        return self._is_off or self._sender is None or os.getpid() != self._pid

    def _search_failed(self, error: Exception) -> None:
        """The search for NaN and Inf is off; the checks go on."""
        pass_on(error)
        _log.exception("the search for NaN and Inf failed", exc_info=error)

    def _failed(self, error: Exception) -> None:
        pass_on(error)
        if not self._is_off:
            self._is_off = True
            _log.exception("the checks over ranks failed", exc_info=error)
            self._lines(
                ProblemLine(
                    f"sonde: the checks over ranks failed ({type(error).__name__}: {error}); the "
                    "training goes on without them",
                    slug="ranks-failed",
                )
            )
