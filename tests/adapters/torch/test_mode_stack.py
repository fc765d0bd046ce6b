"""Sonde's dispatch mode is entered and left completely, wherever a signal handler raises."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from sonde.adapters.torch import private


class Plain(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class StopError(Exception):
    pass


def is_interrupted(event_number: int, action: Callable[[Any], None], mode: Any) -> bool:
    """Call ``action``; a tracer, which Python calls as it calls signal handlers, raises before
    one of its instructions. False if it has fewer."""
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
    sys.settrace(tracer)
    try:
        action(mode)
    except StopError:
        return True
    finally:
        sys.settrace(before)
    return False


def test_an_interruption_at_any_point_loses_no_mode() -> None:
    ours, outer, inner = Plain(), Plain(), Plain()
    flags = [getattr(ours, name) for name in private._SAVED_FLAGS if hasattr(ours, name)]
    number, is_going_on = 0, True
    while is_going_on:
        number += 1
        with outer, inner:
            entering = is_interrupted(number, private.push_mode_below, ours)
            private.push_mode_below(ours)
            assert private.mode_stack() == [ours, outer, inner], number
            assert [len(each) for each in flags] == [1] * len(flags), number
            leaving = is_interrupted(number, private.pop_mode_below, ours)
            assert private.mode_stack()[-2:] == [outer, inner], number
            private.pop_mode_below(ours)
            assert private.mode_stack() == [outer, inner], number
            assert [len(each) for each in flags] == [0] * len(flags), number
        is_going_on = entering or leaving
    assert number > 50
    assert private.mode_stack() == []
    assert not torch.utils._python_dispatch._is_in_torch_dispatch_mode
