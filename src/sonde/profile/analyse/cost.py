"""How many floating-point operations and bytes an op takes, from the shapes it ran with."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

from sonde.core.graph import OpNode, TensorSpec

# Ops that only look at memory in another way, or only reserve it.
_FREE = frozenset(
    {
        *("view", "_unsafe_view", "view_as", "reshape", "_reshape_alias", "as_strided", "alias"),
        *("t", "transpose", "permute", "expand", "squeeze", "unsqueeze", "unfold", "diagonal"),
        *("slice", "select", "narrow", "chunk", "split", "split_with_sizes", "unbind", "detach"),
        *("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "lift_fresh"),
    }
)

_SIZES = {"bool": 1, "complex64": 8, "complex128": 16}


def is_free(op_type: str) -> bool:
    """Whether an op moves no data."""
    return op_type in _FREE


def nbytes(node: OpNode) -> int:
    """Bytes read and written: every input and output once, nothing for a mere view.

    Caches may save some of it, gathers may read less: an upper estimate for those.
    """
    if is_free(node.type):
        return 0
    return sum(map(spec_bytes, [*(edge.spec for edge in node.inputs), *node.outputs]))


def flops(node: OpNode) -> int:
    """Floating-point operations: torch's own count for matrix products, convolutions and
    attention (a multiplication and an addition are two), else one for each element of the
    greatest tensor; none for a view."""
    if is_free(node.type):
        return 0
    formula = _formula(node.type)
    if formula is not None:
        counted = _counted(formula, node)
        if counted is not None:
            return counted
    specs = [*(edge.spec for edge in node.inputs), *node.outputs]
    return max((math.prod(spec.shape) for spec in specs), default=0)


def is_product(op_type: str) -> bool:
    """Whether an op is a matrix product or a convolution: bound by arithmetic, not memory."""
    return _formula(op_type) is not None


def compute_dtype(node: OpNode) -> str:
    """The type an op computes in: that of its greatest floating-point input, or output."""
    specs = [*(edge.spec for edge in node.inputs), *node.outputs]
    floating = [spec for spec in specs if "float" in spec.dtype]
    if not floating:
        return "float32"
    return max(floating, key=lambda spec: math.prod(spec.shape)).dtype


def _formula(op_type: str) -> Callable[..., Any] | None:
    packet = getattr(torch.ops.aten, op_type, None)
    return flop_registry.get(packet) if packet is not None else None


def _counted(formula: Callable[..., Any], node: OpNode) -> int | None:
    shapes = [edge.spec.shape for edge in node.inputs]
    attributes = attribute_values(node)
    out: Any = node.outputs[0].shape if node.outputs else ()
    try:
        if node.type == "convolution":
            bias = shapes[2] if len(shapes) > 2 else None
            counted = formula(
                *shapes[:2],
                bias,
                None,
                None,
                None,
                attributes.get("transposed", False),
                out_val=out,
            )
        elif node.type == "convolution_backward":
            mask = attributes.get("output_mask", [True, True, True])
            counted = formula(
                *shapes[:3],
                None,
                None,
                None,
                None,
                attributes.get("transposed", False),
                None,
                None,
                mask,
                out_val=[spec.shape for spec in node.outputs],
            )
        else:
            counted = formula(*shapes, out_val=out)
    except (TypeError, ValueError, IndexError, AssertionError):
        return None  # a use of the op the formula was not written for
    return int(counted)


def attribute_values(node: OpNode) -> dict[str, Any]:
    """The arguments that are not tensors, as values where their text is a literal."""
    return {name: _value(text) for name, text in node.attributes}


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def spec_bytes(spec: TensorSpec) -> int:
    """Bytes of a tensor of that shape and type."""
    return math.prod(spec.shape) * item_size(spec.dtype)


def item_size(dtype: str) -> int:
    """Bytes of one element of a dtype by its name."""
    if dtype in _SIZES:
        return _SIZES[dtype]
    found = getattr(torch, dtype, None)
    return found.itemsize if isinstance(found, torch.dtype) else 4
