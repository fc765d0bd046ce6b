"""The commands: continue, pause, step, next, to, terminate."""

from __future__ import annotations

from typing import Any

import pytest

from sonde.core.graph import OpNode
from sonde.debugger.control import PauseControl
from sonde.wire.rank import ControlMessage as Message


def told(command: Any, *, steps: int = 1, op: str = "") -> PauseControl:
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


def test_continue_runs_without_observing_ops() -> None:
    control = told("continue")
    assert (control.is_paused, control.needs_ops, control.generation) == (False, False, 7)
    assert [control.reason_at_step_end() for _ in range(3)] == [None] * 3


@pytest.mark.parametrize("steps", [1, 3])
def test_n_steps_end_at_the_nth(steps: int) -> None:
    control = told("step", steps=steps)
    reasons = [control.reason_at_step_end() for _ in range(steps)]
    assert reasons == [None] * (steps - 1) + ["step"]


def test_next_stops_at_any_op_but_not_at_leaves() -> None:
    control = told("next")
    leaf = OpNode("fc.weight", "Parameter", "Default", "forward", kind="parameter")
    assert control.needs_ops
    assert control.reason_at_op(leaf) is None
    assert not control.wants_op(leaf)
    assert control.reason_at_op(op("Default/relu-op0")) == "op"


def test_to_stops_at_the_op_or_the_first_in_a_scope() -> None:
    control = told("to", op="Default/net/")
    assert control.reason_at_op(op("Default/other/relu-op0")) is None
    assert not control.wants_op(op("Default/other/relu-op0"))
    assert control.reason_at_op(op("Default/net/relu-op0")) == "op"


def test_run_to_does_not_stop_at_ops_whose_names_only_begin_alike() -> None:
    control = told("to", op="Default/add-op1")
    assert not control.wants_op(op("Default/add-op10"))
    assert control.reason_at_op(op("Default/add-op10")) is None
    assert control.reason_at_op(op("Default/add-op1")) == "op"


def test_a_pause_takes_effect_at_the_next_possible_point() -> None:
    control = PauseControl()
    control.execute(Message(1, "pause"))
    assert control.is_pause_due
    assert control.reason_at_step_end() == "pause"
    assert control.reason_at_op(op("Default/relu-op0")) == "pause"


def test_pausing_a_paused_training_changes_nothing() -> None:
    control = PauseControl()
    control.pause()
    control.execute(Message(1, "pause"))
    control.execute(Message(2, "continue"))
    assert control.reason_at_step_end() is None


def test_a_stop_for_another_reason_forgets_the_steps_that_were_left() -> None:
    control = told("step", steps=5)
    control.pause()
    control.execute(Message(2, "continue"))
    assert [control.reason_at_step_end() for _ in range(6)] == [None] * 6


def test_terminate_is_remembered_until_it_is_done() -> None:
    control = told("terminate")
    assert control.wants_op(op("Default/relu-op0"))
    assert control.take_end()
    assert not control.take_end()
