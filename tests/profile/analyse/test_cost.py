from typing import Any

import pytest
import torch
from tests.profile.made import MACHINE, node
from torch.utils.flop_counter import FlopCounterMode

from sonde.profile.analyse import cost


def counted(function: Any) -> int:
    """What torch itself counts while the op runs."""
    with FlopCounterMode(display=False) as counter:
        function()
    return int(counter.get_total_flops())


def test_a_matrix_product_is_two_operations_for_each_multiplication() -> None:
    made = node(
        "mm",
        "m",
        inputs=[("a", "float32", (8, 16)), ("b", "float32", (16, 4))],
        outputs=[("float32", (8, 4))],
    )
    assert cost.flops(made) == 2 * 8 * 16 * 4
    assert cost.flops(made) == counted(lambda: torch.ones(8, 16) @ torch.ones(16, 4))
    assert cost.nbytes(made) == 4 * (8 * 16 + 16 * 4 + 8 * 4)


def test_a_linear_layer_and_a_batched_product_are_counted_as_torch_does() -> None:
    addmm = node(
        "addmm",
        "a",
        inputs=[("c", "float32", (4,)), ("a", "float32", (8, 16)), ("b", "float32", (16, 4))],
        outputs=[("float32", (8, 4))],
    )
    bmm = node(
        "bmm",
        "b",
        inputs=[("a", "float32", (3, 8, 16)), ("b", "float32", (3, 16, 4))],
        outputs=[("float32", (3, 8, 4))],
    )
    assert cost.flops(addmm) == counted(
        lambda: torch.addmm(torch.ones(4), torch.ones(8, 16), torch.ones(16, 4))
    )
    assert cost.flops(bmm) == counted(lambda: torch.ones(3, 8, 16) @ torch.ones(3, 16, 4))


def test_a_convolution_and_its_backward_are_counted_as_torch_does() -> None:
    layer = torch.nn.Conv2d(3, 8, 3, stride=2, padding=1)
    images = torch.ones(2, 3, 16, 16, requires_grad=True)
    forward = node(
        "convolution",
        "c",
        inputs=[("x", "float32", (2, 3, 16, 16)), ("w", "float32", (8, 3, 3, 3))],
        outputs=[("float32", (2, 8, 8, 8))],
        attributes=[("stride", "[2, 2]"), ("transposed", "False")],
    )
    backward = node(
        "convolution_backward",
        "b",
        inputs=[
            ("g", "float32", (2, 8, 8, 8)),
            ("x", "float32", (2, 3, 16, 16)),
            ("w", "float32", (8, 3, 3, 3)),
        ],
        outputs=[("float32", (2, 3, 16, 16)), ("float32", (8, 3, 3, 3)), ("float32", (8,))],
        attributes=[("transposed", "False"), ("output_mask", "[True, True, True]")],
    )
    only_forward = counted(lambda: layer(images))
    assert cost.flops(forward) == only_forward
    both = counted(lambda: layer(images).sum().backward())
    assert cost.flops(backward) == both - only_forward


@pytest.mark.parametrize("op_type", ["view", "t", "transpose", "expand", "detach", "empty"])
def test_a_view_costs_nothing(op_type: str) -> None:
    made = node(op_type, "v", inputs=[("a", "float32", (8, 8))])
    assert (cost.flops(made), cost.nbytes(made)) == (0, 0)


def test_other_ops_take_one_operation_an_element_and_all_their_bytes() -> None:
    made = node(
        "add",
        "a",
        inputs=[("a", "bfloat16", (8, 8)), ("b", "bool", (8, 1))],
        outputs=[("bfloat16", (8, 8))],
    )
    assert cost.flops(made) == 64
    assert cost.nbytes(made) == 2 * 64 + 8 + 2 * 64
    assert cost.compute_dtype(made) == "bfloat16"


def test_an_op_without_tensors_costs_nothing() -> None:
    made = node("seed", "s", outputs=())
    assert (cost.flops(made), cost.nbytes(made)) == (0, 0)


@pytest.mark.parametrize(
    ("dtype", "size"),
    [("float64", 8), ("float16", 2), ("float8_e4m3fn", 1), ("int64", 8), ("bool", 1),
     ("complex64", 8), ("unheard_of", 4)],
)  # fmt: skip
def test_elements_have_the_size_of_their_type(dtype: str, size: int) -> None:
    assert cost.item_size(dtype) == size


def test_the_least_time_is_that_of_arithmetic_or_traffic_whichever_is_more() -> None:
    def product(dtype: str) -> float:
        sides = [("a", dtype, (64, 64)), ("b", dtype, (64, 64))]
        made = node("mm", "m", inputs=sides, outputs=[(dtype, (64, 64))])
        return cost.attainable_seconds(made, MACHINE)

    assert product("float32") == 2 * 64**3 / 1e11
    assert product("bfloat16") == 2 * 64**3 / 2e11
    pointwise = node("relu", "r", inputs=[("a", "float32", (64, 64))])
    assert cost.attainable_seconds(pointwise, MACHINE) == 2 * 4 * 64 * 64 / 1e10
