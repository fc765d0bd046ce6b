"""Reports the collectives that the program calls: before they run, so before a hang."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from sonde.adapters.torch import private
from sonde.adapters.torch.calling_line import calling_line
from sonde.adapters.torch.ranks.communication.collective_results import (
    given_hashes,
    given_sums,
    got_hashes,
    got_sums,
)
from sonde.adapters.torch.ranks.communication.collective_signatures import (
    SIGNATURES,
    Call,
    Signature,
)
from sonde.adapters.torch.ranks.communication.pending_works import (
    AwaitedWorks,
    UnfinishedCollectives,
)
from sonde.adapters.torch.ranks.communication.recorded_collectives import LineMarks
from sonde.adapters.torch.ranks.layout import group_name
from sonde.core.patching import wrap
from sonde.ranks.report import CollectiveReport, CollectiveResult, RankReport

_MOST_OF_FSDP: Final = 64


@dataclass(frozen=True, slots=True)
class _Given:
    """What a rank gives to a collective, which has ``sequence`` in ``group``: hashes, sums, and the
    number of a single one that is reduced."""

    group: str
    sequence: int
    hashes: tuple[int, ...]
    sums: tuple[float, ...]
    number: float | None
    line: str


@dataclass(slots=True, eq=False)
class CollectiveCalls:
    """Wraps the functions of ``torch.distributed``. ``send`` takes a report; ``step`` is the
    running step; ``is_compared``: whether results are compared in it; ``timed`` is a block of
    Sonde's own work. ``reduced`` is called when the ranks have reduced a single number: with that
    of this rank, the mean, and the line. ``given`` gets each tensor that is given to a collective
    that reduces, in compared steps; ``unfinished`` the asynchronous ones among those
    collectives. Of those that FSDP calls the first results are taken: they move all weights. The
    result of an asynchronous one is taken when the program has waited for it."""

    send: Callable[[RankReport], None]
    step: Callable[[], int]
    is_compared: Callable[[], bool]
    timed: Callable[[], AbstractContextManager[None]]
    reduced: Callable[[float, float, str], None]
    given: Callable[[Any], None]
    unfinished: UnfinishedCollectives
    works: AwaitedWorks
    marks: LineMarks
    shield: Any
    _sequences: dict[str, int] = field(default_factory=dict)
    _depth: int = 0
    _of_fsdp: int = 0

    def install(self, undo: ExitStack) -> None:
        for name, signature in SIGNATURES.items():
            for owner in (dist, distributed_c10d):
                if hasattr(owner, name):
                    patch = wrap(owner, name, self._reporting(signature), undo)
                    private.hide_from_compiler(patch.replacement)

    def _reporting(
        self, signature: Signature
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def collective(*args: Any, **kwargs: Any) -> Any:
                if self._depth or not dist.is_initialized():
                    return original(*args, **kwargs)
                call = Call(signature, args, kwargs)
                given: _Given | None = None
                with self.shield, private.unobserved():
                    is_own = not _is_of_fsdp(sys._getframe(2))
                    given = self._begin(call, is_own=is_own)
                self._depth += 1
                try:
                    result = original(*args, **kwargs)
                finally:
                    self._depth -= 1
                if given is not None:
                    with self.shield:
                        self._began(call, given, result)
                return result

            return collective

        return make

    def _began(self, call: Call, given: _Given, work: Any) -> None:
        """A collective of a compared step was called; it has ended, unless it is asynchronous."""
        if not call.is_async:
            self._ended(call, given)
            return
        if call.signature.reduce is not None:
            self.unfinished.add(work, call.given, given.line)
        self.works.add(work, lambda: self._ended(call, given))

    def _ended(self, call: Call, given: _Given) -> None:
        """Report the result of a collective."""
        if call.signature.got is None:
            return
        with self.timed():
            self.send(
                CollectiveResult(
                    dist.get_rank(),
                    given.group,
                    given.sequence,
                    given.hashes,
                    got_hashes(call),
                    given.sums,
                    got_sums(call),
                )
            )
            if given.number is not None:
                self._reduced(call, given)

    def _reduced(self, call: Call, given: _Given) -> None:
        parts = dist.get_world_size(call.group) if call.reduce_op == "SUM" else 1
        if call.reduce_op in ("SUM", "AVG") and given.number is not None:
            self.reduced(given.number, float(call.got) / parts, given.line)

    def _begin(self, call: Call, *, is_own: bool) -> _Given | None:
        """Report the call; what is given to it, None if its result is not compared or this rank is
        not in the group. ``is_own``: the program has called it, not FSDP."""
        if call.group is dist.GroupMember.NON_GROUP_MEMBER:
            return None
        name = group_name(call.group)
        sequence = self._sequences[name] = self._sequences.get(name, -1) + 1
        line = calling_line()
        self.marks.add(line, self.step())
        is_compared = self.is_compared()
        if call.signature.reduce is not None and is_compared:
            self.given(call.given)
        self.send(
            CollectiveReport(
                dist.get_rank(),
                name,
                sequence,
                call.signature.kind,
                *call.described(),
                call.reduce_op,
                call.root,
                line,
                self.step(),
            )
        )
        self._of_fsdp += is_compared and not is_own
        if not is_compared or (not is_own and self._of_fsdp > _MOST_OF_FSDP):
            return None
        with self.timed():
            hashes, sums = given_hashes(call), given_sums(call)
            return _Given(name, sequence, hashes, sums, _number(call), line)


def _is_of_fsdp(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith("torch.distributed.fsdp.")


def _number(call: Call) -> float | None:
    """The number that is given to an all_reduce; None of tensors with several."""
    tensor = call.given
    is_number = isinstance(tensor, torch.Tensor) and tensor.numel() == 1
    if call.signature.kind != "all_reduce" or not is_number or not tensor.is_floating_point():
        return None
    return float(tensor)
