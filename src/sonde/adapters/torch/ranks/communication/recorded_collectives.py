"""Reports the collectives that torch's flight recorder has: also those that C++ code starts.

DistributedDataParallel exchanges its buckets from C++, FSDP2 and DTensor use functional
collectives. The recorder numbers all collectives of a group, whoever starts them, before they run.
It does not know the user's line: that of the last thing the training thread was seen to begin (a
backward pass, a call of an outermost module, a collective) before it.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import msgspec
import torch.distributed as dist

from sonde.adapters.torch.ranks.gradients.ddp_buckets import BucketOrder, DdpBuckets
from sonde.adapters.torch.ranks.layout import WORLD
from sonde.adapters.torch.ranks.private import default_group_name, recorded_collectives
from sonde.ranks.report import CollectiveReport, OriginOnRank

_LEAST_SECONDS: Final = 1.0
_COST_FACTOR: Final = 300
"""Reading takes at most one part in so many of the time."""
_MOST_LINES: Final = 512
_EXCHANGES: Final = ("all_reduce", "reduce_scatter", "_reduce_scatter_base", "reduce")


class _Entry(msgspec.Struct):
    """A collective as the recorder has it; other fields are ignored."""

    record_id: int
    collective_seq_id: int
    is_p2p: bool
    process_group: tuple[str, str]
    profiling_name: str
    time_created_ns: int
    input_sizes: list[list[int]] = []
    input_dtypes: list[str] = []

    @property
    def kind(self) -> str:
        return self.profiling_name.partition(":")[2]

    @property
    def dtype(self) -> str:
        return ", ".join(dict.fromkeys(self.input_dtypes)).lower()

    @property
    def count(self) -> int:
        total = 0
        for sizes in self.input_sizes:
            product = 1
            for size in sizes:
                product *= size
            total += product
        return total


class _Trace(msgspec.Struct):
    entries: list[_Entry] = []


_decoder: Final = msgspec.json.Decoder(_Trace)


class LineMarks:
    """Where the training thread was at which time. Written by that thread, read by another."""

    def __init__(self) -> None:
        self._marks: deque[tuple[int, str, int]] = deque(maxlen=_MOST_LINES)

    def add(self, line: str, step: int) -> None:
        self._marks.append((time.time_ns(), line, step))

    def at(self, time_ns: int) -> tuple[str, int]:
        """The line and the step of the last mark before ``time_ns``."""
        marks = list(self._marks)
        number = bisect_right(marks, time_ns, key=lambda each: each[0]) - 1
        return marks[number][1:] if number >= 0 else ("", 0)


@dataclass(slots=True, eq=False)
class RecordedCollectives:
    """Reads the recorder from time to time; used from the thread that sends reports."""

    rank: int
    marks: LineMarks
    buckets: DdpBuckets
    clock: Callable[[], float] = time.monotonic
    _next: float = 0.0
    _last: int = -1
    _order: BucketOrder = field(init=False)

    def __post_init__(self) -> None:
        self._order = BucketOrder(self.buckets)

    def new(self, *, at_once: bool = False) -> list[CollectiveReport]:
        """The collectives since the last time; empty if that was a moment ago."""
        began = self.clock()
        if began < self._next and not at_once:
            return []
        default = default_group_name() if dist.is_initialized() else None
        found = []
        for entry in read_recorder():
            if entry.record_id > self._last:
                self._last = entry.record_id
                found.append(self._report(entry, default))
        self._next = began + max(_LEAST_SECONDS, _COST_FACTOR * (self.clock() - began))
        return found

    def _report(self, entry: _Entry, default: str | None) -> CollectiveReport:
        line, step = self.marks.at(entry.time_created_ns)
        bucket = self._order.match(entry.kind, entry.dtype, entry.count)
        return CollectiveReport(
            self.rank,
            _group(entry, default),
            entry.collective_seq_id,
            entry.kind,
            entry.dtype,
            entry.count,
            "",
            -1,
            line,
            step,
            by="recorder",
            bucket=None if bucket is None else bucket.report(),
        )


def read_recorder() -> list[_Entry]:
    """The collectives that the recorder has, the oldest first."""
    text = recorded_collectives()
    if not text:
        return []
    return [each for each in _decoder.decode(text).entries if not each.is_p2p]


def first_exchange_since(time_ns: int, buckets: DdpBuckets, lost: set[str]) -> OriginOnRank:
    """The first reducing collective since ``time_ns`` as what brought NaN or Inf; of DDP the first
    with the gradient of a parameter in ``lost``. One without a name if the recorder has none."""
    default = default_group_name() if dist.is_initialized() else None
    order = BucketOrder(buckets)
    found = OriginOnRank()
    for entry in read_recorder():
        if entry.time_created_ns < time_ns or entry.kind not in _EXCHANGES:
            continue
        bucket = order.match(entry.kind, entry.dtype, entry.count)
        is_lost = bucket is not None and not lost.isdisjoint(bucket.names)
        if is_lost or not found.collective:
            found = OriginOnRank(
                group=_group(entry, default),
                sequence=entry.collective_seq_id,
                collective=entry.kind,
                bucket=None if bucket is None else bucket.report(),
            )
        if is_lost:
            break
    return found


def _group(entry: _Entry, default: str | None) -> str:
    name = entry.process_group[0]
    return WORLD if name == default else f"group {name}"
