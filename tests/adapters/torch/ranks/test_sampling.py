"""Fewer steps are compared where that takes long, the same ones on all ranks."""

from __future__ import annotations

import pytest

from sonde.adapters.torch.ranks import sampling
from sonde.adapters.torch.ranks.sampling import Sampling
from sonde.ranks.options import RankOptions


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.mark.parametrize(("seconds", "spacing"), [(0.001, 1), (0.005, 2), (0.02, 8), (9.0, 64)])
def test_elements_are_hashed_after_steps_that_leave_time_for_it(
    monkeypatch: pytest.MonkeyPatch, seconds: float, spacing: int
) -> None:
    """Each step takes a second without Sonde."""
    clock = Clock()
    monkeypatch.setattr(sampling, "time", clock)
    kept = Sampling(RankOptions(), _step_began=0.0)
    found = []
    for step in range(600):
        clock.now += 1.0
        if kept.has_spots(step):
            clock.now += seconds
            kept.spent = kept.spent_on_spots = seconds
            found.append(step)
        kept.step_ended(was_sampled=False)
    late = [step for step in found if step >= 300]
    assert late == [step for step in range(300, 600) if step % spacing == 0]
