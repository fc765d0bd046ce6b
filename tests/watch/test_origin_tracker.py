"""Who made non-finite values when compiled code kept some of the values to itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

from sonde.core.graph import Edge, OpNode, TensorSpec
from sonde.watch.faults import find_results
from sonde.watch.origins import OriginTracker

SPEC = TensorSpec("float32", (2,))


@dataclass
class View:
    slot: int
    bad: int
    io: str = "input"
    values_token: object = None
    memory: object = None
    is_filled: bool = True

    def non_finite(self) -> int:
        return self.bad

    def has_nan(self) -> bool:
        return self.bad > 0


def call(name: str, producers: list[str], inputs: list[View], output: int) -> Any:
    edges = tuple(Edge(producer, 0, SPEC) for producer in producers)
    node = OpNode(name, name, "", "forward", "op", edges, (SPEC,))
    return SimpleNamespace(
        node=node, step=0, order=0, inputs=inputs, outputs=[View(0, output)], attributes=()
    )


def test_an_op_with_an_unobserved_input_carries_the_values_of_the_first_origin() -> None:
    tracker = OriginTracker()
    tracker.begin_step()
    first = tracker.look(call("log", ["x"], [View(0, 0)], 3))
    later = tracker.look(call("mm", ["fused", "w"], [View(1, 0)], 5))
    assert first is not None
    assert later is not None
    assert first.is_producer
    assert not later.is_producer
    assert later.origin is first.origin


def test_an_op_with_an_unobserved_input_is_the_origin_if_there_is_no_other() -> None:
    tracker = OriginTracker()
    tracker.begin_step()
    found = tracker.look(call("mm", ["fused", "w"], [View(1, 0)], 5))
    assert found is not None
    assert found.is_producer
    assert found.origin.op == "mm"


def test_an_op_whose_inputs_were_all_seen_and_finite_is_a_second_culprit() -> None:
    tracker = OriginTracker()
    tracker.begin_step()
    tracker.look(call("log", ["x"], [View(0, 0)], 3))
    found = tracker.look(call("sqrt", ["y"], [View(0, 0)], 1))
    assert found is not None
    assert found.is_producer
    assert found.origin.op == "sqrt"


def test_an_in_place_op_on_memory_filled_in_parts_passes_on_what_an_op_wrote_there() -> None:
    """The all_reduce of DDP: ``mul`` writes gradients into a bucket, part by part. Its input is a
    copy from before the op, with memory of its own."""
    tracker = OriginTracker()
    tracker.begin_step()
    tracker.look(call("log", ["x"], [View(0, 0)], 3))
    tracker.look(call("mul", ["log"], [View(0, 3)], 3))
    found = tracker.look(call("allreduce_", ["mul"], [View(0, 3, is_filled=False)], 3))
    assert found is not None
    assert not found.is_producer
    assert found.origin.op == "log"


def test_memory_that_no_op_filled_with_nan_is_not_read() -> None:
    tracker = OriginTracker()
    tracker.begin_step()
    found = tracker.look(call("sqrt", ["empty"], [View(0, 3, is_filled=False)], 3))
    assert found is not None
    assert found.is_producer


def test_a_node_that_only_orders_ops_of_the_optimizer_reads_no_values() -> None:
    faults = []
    for kind in ("UpdateState", "SGD"):
        tracker = OriginTracker()
        tracker.begin_step()
        made = tracker.look(call("log", ["x"], [View(0, 0)], 3))
        reader = call("reader", ["log"], [View(0, 3)], 0)
        reader.node = replace(reader.node, type=kind, phase="optimizer")
        tracker.look(reader)
        assert made is not None
        faults.append(made.origin.is_fault)
    assert faults == [False, True]


def test_what_is_only_compared_is_no_result_but_in_a_weight_that_the_program_updates() -> None:
    def node(name: str, *producers: str, phase: Any = "forward", kind: Any = "op") -> OpNode:
        edges = tuple(Edge(producer, 0, SPEC) for producer in producers)
        is_read_only = name.startswith("isfinite")
        outputs = (TensorSpec("bool" if is_read_only else "float32", (2,)),)
        return OpNode(name, name.partition("-")[0], "", phase, kind, edges, outputs)

    nodes = [
        node("mask"),
        node("isfinite-0", "mask"),
        node("weight", kind="parameter"),
        node("mul", "weight"),
        node("ones_like", "mul", phase="backward"),
        node("gradient", "ones_like", phase="backward"),
        node("step", "gradient"),
        node("isfinite-1", "step"),
        node("view", "weight"),
        node("add_", "view"),
        node("isfinite-2", "add_"),
    ]
    is_result = find_results(nodes)
    found = [each.name for each in nodes if is_result((each.name, 0))]
    assert [each for each in found if not each.startswith("isfinite")] == ["step", "add_"]
