"""A ``TimeoutError`` of the program's signal handler is no error of the guard's files."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

import pytest
from tests.adapters.torch.monitor.test_actions import Training

import sonde


@pytest.mark.parametrize("function", ["ring.py:write", "signal_history.py:write"])
def test_a_time_out_while_signals_are_written_reaches_the_program(
    function: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    raised: list[str] = []

    def tracer(frame: FrameType, event: str, argument: object) -> None:
        place = f"{Path(frame.f_code.co_filename).name}:{frame.f_code.co_name}"
        if place == function and not raised:
            raised.append(place)
            raise TimeoutError("the program's time is over")

    with sonde.guard(tmp_path):
        before = sys.gettrace()
        sys.settrace(tracer)
        try:
            with pytest.raises(TimeoutError, match="the program's time is over"):
                Training().run()
        finally:
            sys.settrace(before)
        Training().run()
    assert raised
    assert "cannot be written" not in capfd.readouterr().err
