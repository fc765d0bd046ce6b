"""Graphs: nodes in order, wiring, and what makes two of them the same structure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sonde.core.graph import Edge, Graph, OpNode, Source, TensorSpec, but_gradients
from sonde.core.keys import TensorKey

SPEC = TensorSpec("float32", (2, 3))
X = OpNode("x", "Input", "Default", "forward", "input", outputs=(SPEC,))
MUL = OpNode("Default/mul-op0", "mul", "Default", "forward", inputs=(Edge("x", 0, SPEC),) * 2)
ADD = OpNode(
    "Default/add-op0",
    "add",
    "Default",
    "forward",
    inputs=(Edge("Default/mul-op0", 0, SPEC), Edge("x", 0, SPEC)),
    sources=(Source("a.py", 3, "f", "x + y"), Source("b.py", 9, "<module>", "f()")),
)
GRAPH = Graph(4, "Net", (X, MUL, ADD))


def test_nodes_are_found_by_name_and_in_order() -> None:
    assert [node.name for node in GRAPH] == ["x", "Default/mul-op0", "Default/add-op0"]
    assert len(GRAPH) == 3
    assert GRAPH.node("Default/add-op0") is ADD
    assert "x" in GRAPH
    assert "y" not in GRAPH
    assert GRAPH.ops == (MUL, ADD)
    with pytest.raises(KeyError):
        GRAPH.node("y")


def test_consumers_are_those_that_read_a_node() -> None:
    assert GRAPH.consumers("x") == (MUL, ADD)
    assert GRAPH.consumers("Default/mul-op0") == (ADD,)
    assert GRAPH.consumers("Default/add-op0") == ()


def test_the_source_of_an_op_is_its_innermost_line() -> None:
    assert str(ADD.source) == "a.py:3"
    assert MUL.source is None


def test_shapes_labels_and_lines_do_not_make_a_new_structure() -> None:
    other = TensorSpec("float32", (9, 3))
    moved = replace(ADD, inputs=tuple(replace(edge, spec=other) for edge in ADD.inputs), sources=())
    assert Graph(9, "Other", (X, MUL, moved)).structure == GRAPH.structure


@pytest.mark.parametrize(
    "changed",
    [
        replace(ADD, type="sub"),
        replace(ADD, name="Default/add-op1"),
        replace(ADD, phase="backward"),
        replace(ADD, inputs=(ADD.inputs[1], ADD.inputs[0])),
        replace(ADD, inputs=(replace(ADD.inputs[0], slot=1), ADD.inputs[1])),
    ],
)
def test_names_types_phases_and_wiring_make_a_new_structure(changed: OpNode) -> None:
    assert Graph(4, "Net", (X, MUL, changed)).structure != GRAPH.structure


def test_order_makes_a_new_structure() -> None:
    assert Graph(4, "Net", (X, ADD, MUL)).structure != GRAPH.structure


def test_keys_of_tensors_sort_in_execution_order_and_print() -> None:
    keys = [
        TensorKey(0, 1, "Default/b-op0", "input", 0),
        TensorKey(0, 1, "Default/b-op0", "input", 10),
        TensorKey(0, 1, "Default/b-op0", "output", 0),
        TensorKey(0, 2, "Default/a-op0", "input", 0),
        TensorKey(1, 0, "Default/z-op0", "output", 3),
    ]
    mixed = [keys[2], keys[4], keys[0], keys[3], keys[1]]
    assert sorted(mixed) == keys
    assert str(keys[-1]) == "Default/z-op0:output.3@1"
    assert str(SPEC) == "float32[2, 3]"


def test_gradients_are_dropped_unless_only_the_gradient_exists() -> None:
    names = ["Gradients/Default/a", "Default/a", "Gradients/Default/b", "Default/a"]
    assert but_gradients(names) == ["Default/a", "Gradients/Default/b"]
