"""Finds where NaN or Inf of a step were made on this rank, by executing the step again.

Each rank executes its own step, without collectives, before the optimizer changes the weights. If
that gives no NaN or Inf, the exchange of gradients brought them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack

import torch

from sonde.adapters.torch.ranks.recorded_collectives import first_exchange_since
from sonde.adapters.torch.replay.recorder import StepRecorder
from sonde.adapters.torch.replay.run_again import is_non_finite, run_again
from sonde.ranks.report import OriginOnRank

_MOST_SEARCHES = 3


class NonFiniteSearch:
    """Keeps the inputs of the running step by reference. Used from the training thread. ``failed``
    gets an exception of the recorder, which is then off."""

    def __init__(self, failed: Callable[[Exception], None]) -> None:
        self._recorder = StepRecorder(failed)
        self._searches = 0

    def install(self, undo: ExitStack) -> None:
        self._recorder.install(undo)

    def optimizer_begins(self, optimizer: torch.optim.Optimizer, *, has_closure: bool) -> None:
        self._recorder.optimizer_begins(optimizer, has_closure=has_closure)

    def step_ended(self) -> None:
        self._recorder.step_ended()

    def find(
        self, step: int, optimizer: torch.optim.Optimizer, since_ns: int
    ) -> OriginOnRank | None:
        """Where the NaN or Inf of the running step come from; None if the step cannot be executed
        again, or after three searches. ``since_ns``: when its backward pass began."""
        if self._searches >= _MOST_SEARCHES:
            return None
        self._searches += 1
        record = self._recorder.take(step, optimizer)
        if not record.events:
            return None
        done = run_again(record, recorder=self._recorder)
        if not done.plain.was_run:
            return None
        exchange = first_exchange_since(since_ns)
        group, sequence, kind = exchange or ("", -1, "")
        if done.origin is None:
            is_own = is_non_finite(done.plain)
            return None if is_own else OriginOnRank("", "", group, sequence, kind)
        source = done.origin.source
        line = "" if source is None else f"{os.path.basename(source.file)}:{source.line}"
        return OriginOnRank(done.origin.op or done.origin.rule, line, group, sequence, kind)
