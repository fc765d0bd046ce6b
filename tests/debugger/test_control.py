"""What the buttons mean."""

from __future__ import annotations

from typing import Any

import pytest

from sonde.core.graph import OpNode
from sonde.debugger.control import PauseControl
from sonde.wire.rank import ControlMessage as Message


def commanded(command: Any, *, steps: int = 1, op: str = "") -> PauseControl:
    control = PauseControl()
    control.pause()
    control.execute(Message(7, command, steps, op))
    return control


def op(name: str) -> OpNode:
    return OpNode(name, "relu", name.rpartition("/")[0], "forward")


def test_a_training_without_commands_runs() -> None:
    control = PauseControl()
    assert not control.is_paused
    assert control.reason_at_step_end() is None
    assert control.reason_at_op(op("Default/relu-op0")) is None


def test_continue_lets_it_run_without_looking_at_ops() -> None:
    control = commanded("continue")
    assert (control.is_paused, control.needs_ops, control.generation) == (False, False, 7)
    assert [control.reason_at_step_end() for _ in range(3)] == [None] * 3


@pytest.mark.parametrize("steps", [1, 3])
def test_n_steps_end_at_the_nth(steps: int) -> None:
    control = commanded("step", steps=steps)
    reasons = [control.reason_at_step_end() for _ in range(steps)]
    assert reasons == [None] * (steps - 1) + ["step"]


def test_next_stops_at_any_op_but_not_at_leaves() -> None:
    control = commanded("next")
    leaf = OpNode("fc.weight", "Parameter", "Default", "forward", kind="parameter")
    assert control.needs_ops
    assert control.reason_at_op(leaf) is None
    assert not control.wants_op(leaf)
    assert control.reason_at_op(op("Default/relu-op0")) == "op"


def test_to_stops_at_the_op_or_the_first_in_a_scope() -> None:
    control = commanded("to", op="Default/net/")
    assert control.reason_at_op(op("Default/other/relu-op0")) is None
    assert not control.wants_op(op("Default/other/relu-op0"))
    assert control.reason_at_op(op("Default/net/relu-op0")) == "op"


def test_to_passes_ops_whose_names_only_begin_alike() -> None:
    control = commanded("to", op="Default/add-op1")
    assert not control.wants_op(op("Default/add-op10"))
    assert control.reason_at_op(op("Default/add-op10")) is None
    assert control.reason_at_op(op("Default/add-op1")) == "op"


def test_a_pause_stops_at_whatever_comes_first() -> None:
    control = PauseControl()
    control.execute(Message(1, "pause"))
    assert control.is_pause_due
    assert control.reason_at_step_end() == "pause"
    assert control.reason_at_op(op("Default/relu-op0")) == "pause"


def test_a_pause_of_what_stands_still_changes_nothing() -> None:
    control = PauseControl()
    control.pause()
    control.execute(Message(1, "pause"))
    control.execute(Message(2, "continue"))
    assert control.reason_at_step_end() is None


def test_a_stop_for_another_reason_forgets_the_steps_that_were_left() -> None:
    control = commanded("step", steps=5)
    control.pause()
    control.execute(Message(2, "continue"))
    assert [control.reason_at_step_end() for _ in range(6)] == [None] * 6


def test_terminate_is_remembered_until_it_is_done() -> None:
    control = commanded("terminate")
    assert control.wants_op(op("Default/relu-op0"))
    assert control.take_end()
    assert not control.take_end()


def test_an_op_that_a_whole_step_runs_without_was_missed() -> None:
    control = commanded("to", op="Default/relu-op9")
    # The command came in the middle of a step, after the op perhaps.
    assert control.reason_at_step_end() is None
    control.begin_step()
    assert control.reason_at_step_end() == "missed"
    assert control.missed == "Default/relu-op9"


def test_an_op_of_another_kind_of_step_is_awaited_for_some_steps() -> None:
    control = commanded("to", op="Default/relu-op9")
    reasons = []
    for _ in range(40):
        control.begin_step()
        reasons.append(control.reason_at_step_end(lambda op: op == "Default/relu-op9"))
        if reasons[-1] is not None:
            break
    assert reasons == [None] * 29 + ["missed"]
