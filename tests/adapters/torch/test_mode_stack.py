"""Sonde's dispatch mode is entered and left completely, wherever a signal handler raises."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from torch.utils import _python_dispatch
from torch.utils._python_dispatch import TorchDispatchMode

from sonde.adapters.torch.mode_stack import _FLAGS, mode_stack, pop_mode_below, push_mode_below


class Plain(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def torch_flags() -> list[bool]:
    """What torch believes about the modes it is in."""
    return [getattr(_python_dispatch, name) for _, name, _ in _FLAGS]


class StopError(Exception):
    pass


def is_interrupted(event_number: int, action: Callable[[Any], None], mode: Any) -> bool:
    """Call ``action``; a tracer, which Python calls as it calls signal handlers, raises before
    one of its instructions. False if it has fewer. The garbage collector must not run: Python
    ignores what is raised in its callbacks, which Hypothesis, for one, adds."""
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
    gc.disable()
    sys.settrace(tracer)
    try:
        action(mode)
    except StopError:
        return True
    finally:
        sys.settrace(before)
        gc.enable()
    return False


def test_an_interruption_at_any_point_loses_no_mode() -> None:
    ours, outer, inner = Plain(), Plain(), Plain()
    flags = [getattr(ours, name) for name, _, _ in _FLAGS if hasattr(ours, name)]
    number, is_going_on = 0, True
    while is_going_on:
        number += 1
        with outer, inner:
            entering = is_interrupted(number, push_mode_below, ours)
            push_mode_below(ours)
            assert mode_stack() == [ours, outer, inner], number
            assert [len(each) for each in flags] == [1] * len(flags), number
            leaving = is_interrupted(number, pop_mode_below, ours)
            assert mode_stack()[-2:] == [outer, inner], number
            pop_mode_below(ours)
            assert mode_stack() == [outer, inner], number
            assert [len(each) for each in flags] == [0] * len(flags), number
        is_going_on = entering or leaving
    assert number > 50
    assert mode_stack() == []
    assert torch_flags() == [False] * 3


@pytest.mark.parametrize("entered", ["before", "inside", "between"])
@pytest.mark.parametrize("left", ["before", "inside", "between"])
def test_torch_knows_whether_it_is_in_a_mode(entered: str, left: str) -> None:
    """Sonde's mode comes and goes before, inside and between the modes of the program."""
    ours, outer, inner = Plain(), Plain(), Plain()
    if entered == "before":
        push_mode_below(ours)
    with outer:
        if entered == "between":
            push_mode_below(ours)
        with inner:
            if entered == "inside":
                push_mode_below(ours)
            if left == "inside":
                pop_mode_below(ours)
            assert torch_flags() == [True] * 3
        if left == "between":
            pop_mode_below(ours)
        assert torch_flags() == [True] * 3
    if left == "before":
        assert torch_flags() == [True] * 3
        pop_mode_below(ours)
    assert torch_flags() == [False] * 3
    assert mode_stack() == []


def test_a_mode_that_is_entered_again_inside_itself_stays_entered_twice() -> None:
    ours, twice = Plain(), Plain()
    with twice:
        with twice:
            push_mode_below(ours)
            assert mode_stack() == [ours, twice, twice]
            pop_mode_below(ours)
            assert mode_stack() == [twice, twice]
        assert torch_flags() == [True] * 3
    assert torch_flags() == [False] * 3
