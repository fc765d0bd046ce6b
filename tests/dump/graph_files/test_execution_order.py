from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sonde.dump.graph_files.execution_order import (
    read_node_order,
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


def test_steps_are_one_a_line() -> None:
    assert write_steps([0, 1, 12]) == "0\n1\n12\n"


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    read_node_order(text)
