"""A signal handler that raises while a value is copied leaves torch's modes as they were."""

from __future__ import annotations

import gc
import sys
from types import FrameType
from typing import Any

import torch

from sonde.adapters.torch.debugging.held_tensors import TorchSnapshot


class StopError(Exception):
    pass


def copy_interrupted(tensor: torch.Tensor, event_number: int) -> None:
    """Copy ``tensor`` as in an optimizer's step; a tracer, which Python calls as it calls signal
    handlers, raises before one of the instructions."""
    events = 0

    def tracer(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal events
        frame.f_trace_opcodes = True
        events += event in ("call", "opcode")
        if events == event_number:
            sys.settrace(None)
            raise StopError
        return tracer

    before = sys.gettrace()
    with torch.no_grad():
        sys.settrace(tracer)
        try:
            TorchSnapshot(tensor)
        finally:
            sys.settrace(before)


def test_an_interrupted_copy_does_not_switch_gradients_off_later() -> None:
    weight = torch.ones(3, requires_grad=True)
    gc.disable()  # Python ignores what is raised in callbacks of the collector.
    try:
        for number in range(1, 1000):
            try:
                copy_interrupted(weight, number)
            except StopError:
                assert torch.is_grad_enabled(), number
            else:
                break
            # The exception, its frames, and all that they held are gone.
            assert torch.is_grad_enabled(), number
    finally:
        gc.enable()
    assert 5 < number < 999


def test_a_copy_made_in_inference_mode_can_be_written_later() -> None:
    with torch.inference_mode():
        copy = TorchSnapshot(torch.ones(3))
    assert copy.renew(TorchSnapshot(torch.zeros(3)).view)
    assert copy.view.numpy().tolist() == [0, 0, 0]
