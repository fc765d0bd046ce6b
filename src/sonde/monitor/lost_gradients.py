"""Finds steps in which the program cleared gradients that it usually accumulates.

A step may have any number of backward passes, and fewer at the end of an epoch; a program may also
clear gradients between two passes in every step, or make one more pass for a measurement and clear
its gradients. None of this is a fault. A step is one if gradients were cleared between two passes,
which the run has not done before, and fewer passes count than usually.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median_low
from typing import Final

from sonde.monitor.triggers import Trigger

_WARM_UP_STEPS: Final = 10
_HISTORY_STEPS: Final = 100


@dataclass(slots=True)
class PassCounts:
    """The backward passes of the last steps of one optimizer: how many counted, how many were
    lost."""

    _last: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=_HISTORY_STEPS))

    def judge(self, step: int, passes: int, lost: int) -> Trigger | None:
        """Judge a step with so many ``passes``, of which ``lost`` were cleared, and add it."""
        found = self._judged(step, passes - lost) if lost else None
        self._last.append((passes - lost, lost))
        return found

    def _judged(self, step: int, counted: int) -> Trigger | None:
        if len(self._last) < _WARM_UP_STEPS or any(lost for _, lost in self._last):
            return None
        usual = median_low(each for each, _ in self._last)
        if counted >= usual:
            return None
        return Trigger(
            "lost-gradients", step, "gradient", value=float(counted), median=float(usual)
        )
