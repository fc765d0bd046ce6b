"""Memory of the training that is lent to pending files: its holders hear of every write to it."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest
import torch
from tests.adapters.torch.watching import Watched, watch

from sonde.core.sink import StepEnd


class Holder(Watched):
    """Keeps what it is lent beyond the end of the step; ``changed`` are the notified holds."""

    def __init__(self) -> None:
        super().__init__(values=False)
        self.holds: list[Any] = []
        self.changed: list[int] = []

    def _value(self, view: Any) -> None:
        hold = view.hold()
        hold.job = len(self.holds)
        hold.on_change = self.changed.append
        self.holds.append(hold)

    def end_step(self, end: StepEnd) -> None:
        pass


@pytest.fixture
def holder(monkeypatch: pytest.MonkeyPatch) -> Holder:
    made = Holder()
    monkeypatch.setattr("tests.adapters.torch.watching.Watched", lambda **_: made)
    return made


@pytest.mark.parametrize("function", ["learn_if_repeated", "begin_at_once", "begin_step"])
def test_a_write_by_a_signal_handler_between_two_steps_is_noticed(
    function: str, holder: Holder
) -> None:
    kept = torch.zeros(0)
    written: list[int] = []

    def tracer(frame: FrameType, event: str, argument: object) -> None:
        if frame.f_code.co_name == function and not written:
            written.append(1)
            assert not holder.changed
            kept.zero_()

    with watch(step_by="manual") as seen:
        kept = torch.ones(3) * 2
        lent = [hold.job for hold in holder.holds if hold.address == kept.data_ptr()]
        assert [holder.holds[job].is_copy for job in lent] == [False]
        sys.settrace(tracer)
        try:
            assert seen.adapter is not None
            seen.adapter.end_step()
        finally:
            sys.settrace(None)
    assert written
    assert holder.changed == lent
