"""Names the parameters in the buckets that DistributedDataParallel exchanges.

DDP puts gradients into buckets, in the reverse order of the parameters at first, and after its
first backward pass anew in the order in which gradients were ready. It reduces them in their order,
from C++: the flight recorder has the number of elements of each collective only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import torch
from torch.nn.parallel import DistributedDataParallel

from sonde.adapters.torch.ranks.private import bucket_layout, wrapped_parameters
from sonde.core.weak_table import WeakTable
from sonde.ranks.report import GradientBucket

_MOST_NAMES: Final = 4
_LEARNED_CALLS: Final = 3
"""DDP divides its buckets anew before the second backward pass at the latest."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """``names``: its parameters in their order. ``elements``: of all its gradients."""

    number: int
    names: tuple[str, ...]
    elements: int

    def report(self) -> GradientBucket:
        return GradientBucket(self.number, self.names[:_MOST_NAMES], len(self.names))


@dataclass(slots=True, eq=False)
class DdpBuckets:
    """The buckets of the wrappers of a program. Written by the training thread; ``tables`` is
    replaced as a whole, so that another thread may read it."""

    tables: tuple[tuple[Bucket, ...], ...] = ()
    _wrappers: WeakTable[DistributedDataParallel, int] = field(default_factory=WeakTable)

    def wrapped(self, wrapper: DistributedDataParallel) -> None:
        self._wrappers[wrapper] = 0

    def learn(self, name_of: Callable[[torch.Tensor], str]) -> None:
        """A backward pass has ended: read the buckets, a few times only."""
        counts = {each: self._wrappers.get(each) or 0 for each in list(self._wrappers)}
        if all(count >= _LEARNED_CALLS for count in counts.values()):
            return
        tables = []
        for wrapper, count in counts.items():
            self._wrappers[wrapper] = count + 1
            parameters = [each for each in wrapped_parameters(wrapper) if each.requires_grad]
            indexes = bucket_layout(wrapper, [each.nbytes for each in parameters])
            tables.append(
                tuple(
                    _bucket(number, [parameters[index] for index in each], name_of)
                    for number, each in enumerate(indexes)
                )
            )
        self.tables = tuple(each for each in tables if each)


@dataclass(slots=True, eq=False)
class BucketOrder:
    """Tells which bucket a collective of the recorder has, given all collectives in their order.
    Used from one thread."""

    buckets: DdpBuckets
    _next: dict[int, int] = field(default_factory=dict)

    def match(self, kind: str, dtype: str, elements: int) -> Bucket | None:
        """The bucket that is next in its order, or the first of another backward pass."""
        if kind != "all_reduce" or "float" not in dtype:
            return None
        tables = self.buckets.tables
        for is_first in (False, True):
            for number, table in enumerate(tables):
                place = 0 if is_first else self._next.get(number, 0)
                if place < len(table) and table[place].elements == elements:
                    self._next[number] = place + 1
                    return table[place]
        return None


def _bucket(
    number: int, parameters: Sequence[torch.Tensor], name_of: Callable[[torch.Tensor], str]
) -> Bucket:
    names = tuple(name_of(each) for each in parameters)
    return Bucket(number, names, sum(each.numel() for each in parameters))
