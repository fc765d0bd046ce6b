from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sonde.dump.graph_files.execution_order import (
    read_node_order,
    read_steps,
    write_node_order,
    write_steps,
)

names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=30).map(
    str.strip
)


def test_node_orders_look_like_mindspores() -> None:
    assert write_node_order(["Default/a-op0", "Default/b,c-op1"]) == (
        'NodeExecutionOrder-FullNameWithScope\nDefault/a-op0\n"Default/b,c-op1"\n'
    )


@given(st.lists(names.filter(bool)))
def test_node_orders_are_read_back(order: list[str]) -> None:
    assert read_node_order(write_node_order(order)) == tuple(order)


@given(st.lists(st.integers(0, 10**12), unique=True))
def test_steps_are_read_back(steps: list[int]) -> None:
    assert read_steps(write_steps(steps)) == tuple(steps)


def test_a_step_listed_twice_counts_once() -> None:
    assert read_steps("0\n1\n1\n0\nnonsense\n-3\n") == (0, 1)


def test_a_step_cut_off_by_a_kill_is_left_out() -> None:
    assert read_steps("0\n1\n12") == (0, 1)


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    read_node_order(text)
    read_steps(text)
