"""Finds where NaN or Inf of a step were made on this rank, by executing the step again.

Each rank executes its own step, without collectives, before the optimizer changes the weights. If
that gives no NaN or Inf, the exchange of gradients brought them. Of a model that needs other ranks
for its forward pass, calls are screened while the step runs, and only what the program computes
from its outputs is executed again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from typing import Any

import torch
from msgspec.structs import replace as replace_fields
from torch import nn

from sonde.adapters.torch.ranks.non_finite.call_screen import CallScreen
from sonde.adapters.torch.ranks.non_finite.followed_call import FollowedCall, ScreenedOrigin
from sonde.adapters.torch.ranks.non_finite.followed_modules import is_compiled, needs_other_ranks
from sonde.adapters.torch.ranks.non_finite.local_call import NotExecutedError, find_op
from sonde.adapters.torch.ranks.non_finite.output_sums import OutputSums
from sonde.adapters.torch.replay.recorder import StepRecorder
from sonde.adapters.torch.replay.run_again import Replayed, is_non_finite, run_again
from sonde.adapters.torch.replay.step_record import ModuleCall, StepRecord
from sonde.ranks.report import OriginOnRank
from sonde.watch.origins import Origin

_MOST_SEARCHES = 3
_MOST_CALLS = 30
"""Calls that are executed again in a run, also in steps that a GradScaler then skips."""


class NonFiniteSearch:
    """Keeps the inputs of the running step by reference. Used from the training thread. ``failed``
    gets an exception of the recorder, which is then off; ``shield`` takes other failures."""

    def __init__(self, failed: Callable[[Exception], None], shield: Any) -> None:
        self._recorder = StepRecorder(failed)
        self._screen = CallScreen(shield, self._find_op)
        self._sums = OutputSums(shield)
        self._paused: Callable[[], AbstractContextManager[None]] = nullcontext
        self._searches = 0
        self._calls = 0

    def install(self, undo: ExitStack, paused: Callable[[], AbstractContextManager[None]]) -> None:
        """Record until ``undo`` is closed. ``paused``: a block in which nothing is reported."""
        self._recorder.install(undo)
        self._paused = paused

    def module_begins(self, module: nn.Module, args: Any) -> None:
        """An outermost module begins."""
        if not needs_other_ranks(module) or is_compiled(module) or self._is_over:
            return
        is_cpu = all(each.device.type == "cpu" for each in module.parameters())
        (self._screen if is_cpu else self._sums).follow(module, args)

    def module_ended(self, *, has_failed: bool) -> None:
        """``has_failed``: by an exception."""
        self._screen.leave(has_failed=has_failed)
        self._sums.leave(has_failed=has_failed)

    def backward_ended(self) -> None:
        self._screen.backward_ended()

    def optimizer_begins(self, optimizer: torch.optim.Optimizer, *, has_closure: bool) -> None:
        self._recorder.optimizer_begins(optimizer, has_closure=has_closure)

    def step_ended(self) -> None:
        self._recorder.step_ended()
        self._screen.step_ended()
        self._sums.step_ended()

    def find(
        self,
        step: int,
        optimizer: torch.optim.Optimizer,
        exchange: Callable[[], OriginOnRank],
    ) -> OriginOnRank | None:
        """Where the NaN or Inf of the running step come from; None after three searches.
        ``exchange``: the collective that has brought them if this rank has not made them."""
        if self._is_over:
            return None
        self._searches += 1
        carried = exchange()
        screened = self._screen.found or self._sums.first()
        record = self._recorder.take(step, optimizer)
        done = self._run_again(record, screened)
        if done is None:
            return carried if screened is None else _screened_origin(screened, carried)
        if done.origin is None:
            return None if is_non_finite(done.plain) else carried
        source = done.origin.source
        line = "" if source is None else f"{os.path.basename(source.file)}:{source.line}"
        return replace_fields(carried, op=done.origin.op or done.origin.rule, source=line)

    def made_here(self) -> OriginOnRank | None:
        """What of the running step this rank has made NaN or Inf in, although its own gradients are
        finite: shards of other ranks may have them."""
        found = self._screen.found
        is_made = found is not None and found.what and not self._is_over
        return _screened_origin(found, OriginOnRank()) if found is not None and is_made else None

    def _run_again(self, record: StepRecord, screened: ScreenedOrigin | None) -> Replayed | None:
        """Execute the step again; of one that needs other ranks only the loss, where no call has
        made what is not finite. None if that was not possible, or has found nothing."""
        if not record.events:
            return None
        if not any(each.kind == "collective" for each in record.unreplayable):
            done = run_again(record, recorder=self._recorder)
            return done if done.plain.was_run else None
        if screened is not None and screened.what:
            return None
        done = run_again(_without_calls(record), recorder=self._recorder)
        is_made = done.origin is not None and done.origin.evidence["kind"] != "leaf"
        return done if is_made else None

    def _find_op(self, call: FollowedCall, with_backward: bool) -> Origin | None:
        self._calls += 1
        if self._calls > _MOST_CALLS:
            raise NotExecutedError("too many")
        with self._paused():
            return find_op(call, self._recorder, with_backward=with_backward)

    @property
    def _is_over(self) -> bool:
        return self._searches >= _MOST_SEARCHES


def _screened_origin(found: ScreenedOrigin, carried: OriginOnRank) -> OriginOnRank:
    return replace_fields(
        carried,
        op=found.what,
        source=found.source,
        order=found.order,
        is_backward=found.is_backward,
    )


def _without_calls(record: StepRecord) -> StepRecord:
    """``record`` with the outputs of modules as constants."""
    return replace(
        record,
        events=[each for each in record.events if not isinstance(each, ModuleCall)],
        unreplayable=[each for each in record.unreplayable if each.kind != "collective"],
    )
