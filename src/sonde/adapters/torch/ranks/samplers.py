"""Follows the epochs of distributed samplers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist
import xxhash
from torch.utils.data.distributed import DistributedSampler

from sonde.adapters.torch.calling_line import calling_line
from sonde.core.patching import wrap
from sonde.ranks.report import EpochReport, RankReport

_FEWEST = 8
"""Samples below which two equal orders may be chance."""


@dataclass(slots=True, eq=False)
class SamplerCalls:
    """Reports the order of each epoch of a ``DistributedSampler``."""

    send: Callable[[RankReport], None]
    shield: Any

    def install(self, undo: ExitStack) -> None:
        wrap(DistributedSampler, "__iter__", self._beginning, undo)

    def _beginning(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def begin_epoch(sampler: Any) -> Iterator[int]:
            indexes = list(original(sampler))
            with self.shield:
                if dist.is_initialized() and len(indexes) >= _FEWEST:
                    order = xxhash.xxh3_64_intdigest(repr(indexes).encode())
                    self.send(
                        EpochReport(
                            dist.get_rank(),
                            type(sampler).__name__,
                            int(sampler.epoch),
                            bool(sampler.shuffle),
                            order,
                            calling_line(),
                        )
                    )
            return iter(indexes)

        return begin_epoch
