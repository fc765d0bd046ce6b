"""Data edges, by tensor identity, through views and in-place ops."""

from __future__ import annotations

import torch
from tests.adapters.torch.watching import Watched, watch
from torch import nn


def edges(seen: Watched, step: int = 0) -> dict[str, list[str]]:
    return {
        node.name.removeprefix("Default/"): [
            f"{edge.producer.removeprefix('Default/')}:{edge.slot}" for edge in node.inputs
        ]
        for node in seen.graph(step).ops
    }


def test_an_op_reads_the_outputs_of_others_by_slot() -> None:
    with watch() as seen:
        values, order = torch.arange(4.0).sort()
        _ = values * values
        _ = order + 1
    assert edges(seen) == {
        "arange-op0": [],
        "sort-op0": ["arange-op0:0"],
        "mul-op0": ["sort-op0:0", "sort-op0:0"],
        "add-op0": ["sort-op0:1"],
    }


def test_a_view_is_an_op_of_its_own_and_the_source_of_those_that_read_it() -> None:
    with watch() as seen:
        x = torch.ones(2, 3)
        rows = x.t()
        _ = rows + 1
        _ = x + 2
        _ = x[0] * x[1]
    assert edges(seen) == {
        "ones-op0": [],
        "t-op0": ["ones-op0:0"],
        "add-op0": ["t-op0:0"],
        "add-op1": ["ones-op0:0"],
        "select-op0": ["ones-op0:0"],
        "select-op1": ["ones-op0:0"],
        "mul-op0": ["select-op0:0", "select-op1:0"],
    }


def test_an_op_in_place_is_the_source_from_then_on() -> None:
    with watch() as seen:
        x = torch.zeros(2)
        y = x.add_(1)
        _ = x * y
    assert edges(seen) == {
        "zeros-op0": [],
        "add_-op0": ["zeros-op0:0"],
        "mul-op0": ["add_-op0:0", "add_-op0:0"],
    }


def test_a_write_through_a_view_is_the_source_of_the_whole() -> None:
    with watch() as seen:
        x = torch.zeros(2, 2)
        row = x[0]
        row.fill_(3)
        _ = x + 1
        _ = row + 1
    assert edges(seen)["add-op0"] == ["fill_-op0:0"]
    assert edges(seen)["add-op1"] == ["fill_-op0:0"]


def test_saved_tensors_are_the_forward_ops_outputs() -> None:
    x = nn.Parameter(torch.ones(3))
    with watch() as seen:
        (x.exp() * x).sum().backward()
    graph = seen.graph()
    product = [node for node in graph.ops if node.phase == "backward" and node.type == "mul"]
    assert [edge.producer for edge in product[0].inputs] == [
        "Gradients/Default/expand-op0",
        "Default/exp-op0",
    ]
    assert [edge.producer for edge in product[1].inputs] == ["Gradients/Default/expand-op0", "x"]


def test_conjugated_and_plain_are_distinguished() -> None:
    x = torch.tensor([1 + 2j])
    with watch() as seen:
        y = x * 1
        z = y.conj()
        _ = y + 0
        _ = z + 0
        w = z.imag
        _ = w + 0
    assert edges(seen)["add-op0"] == ["mul-op0:0"]
    assert edges(seen)["_conj-op0"] == ["mul-op0:0"]
    assert seen.call("Default/add-op0").inputs[0].tolist() == [1 + 2j]
    assert seen.call("Default/add-op1").inputs[0].tolist() == [1 - 2j]
    assert seen.call("Default/add-op2").inputs[0].tolist() == [-2.0]


def test_another_view_of_the_same_memory_is_another_structure() -> None:
    with watch(step_by="manual") as seen:
        for number in (0, 1, 0):
            x = torch.arange(4.0)
            halves = (x[:2], x[2:])
            _ = halves[number] * 2
            seen.adapter.end_step()
    assert [seen.graph(step).id for step in range(3)] == [0, 1, 0]
    assert edges(seen, 1)["mul-op0"] == ["slice-op1:0"]
    assert [seen.call("Default/mul-op0", step).inputs[0].tolist() for step in range(3)] == [
        [0, 1],
        [2, 3],
        [0, 1],
    ]


def test_another_slice_of_an_input_is_not_mistaken_for_the_first() -> None:
    data = torch.arange(8.0)
    pairs = [data[0:2], data[2:4], data[4:6], data[6:8]]
    with watch(step_by="manual") as seen:
        for one, other in ((0, 0), (2, 3)):
            a, b = pairs[one], pairs[other]
            _ = a * 1
            _ = b * 1
            seen.adapter.end_step()
    second = [call for call in seen.calls(1) if call.node.kind == "op"]
    assert [call.inputs[0].tolist() for call in second] == [[4, 5], [6, 7]]
    tokens = [call.input_tokens[0] for call in second]
    assert tokens[0] is not None
    assert tokens[1] is None


def test_the_gradient_of_a_parameter_is_what_the_optimizer_reads() -> None:
    weight = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.5)
    with watch() as seen:
        (weight * 3).sum().backward()
        optimizer.step()
    update = seen.graph().node("Default/optimizer-SGD/add_-op0")
    assert update.inputs[0].producer == "weight"
    assert update.inputs[1].producer.startswith("Gradients/Default/")
    call = seen.call(update.name)
    assert [value.tolist() for value in call.inputs] == [[1, 1], [3, 3]]
    assert call.outputs[0].tolist() == [-0.5, -0.5]


def test_a_tensor_freed_and_made_again_at_its_address_is_a_new_tensor() -> None:
    with watch(step_by="manual") as seen:
        for _ in range(6):
            for _ in range(20):
                x = torch.frombuffer(bytearray(8), dtype=torch.float32)
                y = x * 2
                z = y + 1
                del x, y, z
            seen.adapter.end_step()
    assert {seen.graph(step).id for step in range(6)} == {0}
    for step in range(6):
        for node in seen.graph(step).ops:
            if node.type == "mul":
                assert node.inputs[0].producer.startswith("x")
            if node.type == "add":
                number = node.name.rsplit("op", 1)[1]
                assert node.inputs[0].producer == f"Default/mul-op{number}"


def test_lists_of_tensors_are_inputs_one_by_one() -> None:
    with watch() as seen:
        parts = torch.ones(4).split(2)
        torch._foreach_add_(list(parts), 1)
        _ = torch.cat(parts)
    assert edges(seen)["cat-op0"] == ["_foreach_add_-op0:0", "_foreach_add_-op0:1"]
