"""Which steps are compared, so that hashing takes a small part of the time."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final

from sonde.ranks.options import RankOptions

_SHARE: Final = 0.01
"""The share of the time of steps that hashing may take; beyond, fewer steps are compared."""
_SPOT_SHARE: Final = 0.003
"""That hashing a few elements of each parameter may take."""
_MOST_DOUBLINGS: Final = 6


@dataclass(slots=True)
class Sampling:
    """``spent`` adds up the seconds that Sonde takes in the running step; ``spent_on_spots`` is the
    part of them in which a few elements of each parameter are hashed."""

    options: RankOptions
    spent: float = 0.0
    spent_on_spots: float = 0.0
    _spot_interval: int = 1
    _interval: int = 0
    _step_began: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        self._interval = self.options.every

    def is_sampled(self, step: int) -> bool:
        return self.options.is_sampled(step, self._interval)

    def has_spots(self, step: int) -> bool:
        """Whether a few elements of each parameter are hashed after ``step``: after all, but where
        that would take long."""
        return step % self._spot_interval == 0

    def step_ended(self, was_sampled: bool) -> None:
        """Compare fewer steps where hashing takes long; intervals are doubled, so that the steps
        stay a part of those of the other ranks."""
        now = time.perf_counter()
        rest = max(now - self._step_began - self.spent, 1e-4)
        if was_sampled and self.spent / self._interval > _SHARE * rest:
            self._interval = min(2 * self._interval, self.options.every << _MOST_DOUBLINGS)
        if self.spent_on_spots / self._spot_interval > _SPOT_SHARE * rest:
            self._spot_interval = min(2 * self._spot_interval, 1 << _MOST_DOUBLINGS)
        self._step_began, self.spent, self.spent_on_spots = now, 0.0, 0.0
