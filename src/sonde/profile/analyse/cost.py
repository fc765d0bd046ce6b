"""The floating-point operations and bytes of an op, from the shapes of its tensors."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

from sonde.core.graph import OpNode, TensorSpec
from sonde.profile.document import Machine

# Ops that only return a view of memory, or only allocate it.
FREE_OPS = frozenset(
    {
        *("view", "_unsafe_view", "view_as", "reshape", "_reshape_alias", "as_strided", "alias"),
        *("t", "transpose", "permute", "expand", "squeeze", "unsqueeze", "unfold", "diagonal"),
        *("slice", "select", "narrow", "chunk", "split", "split_with_sizes", "unbind", "detach"),
        *("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "lift_fresh"),
    }
)


def nbytes(node: OpNode) -> int:
    """Bytes read and written: every input and output once, nothing for a view.

    An upper limit: caches may save some of it, and gathers may read less.
    """
    return 0 if node.type in FREE_OPS else sum(map(spec_bytes, _specs(node)))


def flops(node: OpNode) -> int:
    """Floating-point operations: torch's own count for matrix products, convolutions and
    attention (a multiplication and an addition are two), else one for each element of the
    largest tensor; none for a view."""
    if node.type in FREE_OPS:
        return 0
    formula = _formula(node.type)
    counted = _counted(formula, node) if formula is not None else None
    if counted is not None:
        return counted
    return max((math.prod(spec.shape) for spec in _specs(node)), default=0)


def is_product(op_type: str) -> bool:
    """Whether an op is a matrix product or a convolution: bound by arithmetic, not memory."""
    return _formula(op_type) is not None


def compute_dtype(node: OpNode) -> str:
    """The dtype in which an op computes: that of its largest floating-point tensor."""
    floating = [spec for spec in _specs(node) if "float" in spec.dtype]
    if not floating:
        return "float32"
    return max(floating, key=lambda spec: math.prod(spec.shape)).dtype


def attainable_seconds(node: OpNode, machine: Machine) -> float:
    """The time of an op at peak performance, if arithmetic and memory traffic overlap."""
    peak = machine.flops.get(compute_dtype(node)) or max(machine.flops.values())
    return max(flops(node) / peak, nbytes(node) / machine.bytes_per_second)


def _specs(node: OpNode) -> list[TensorSpec]:
    """Inputs and outputs."""
    return [*(edge.spec for edge in node.inputs), *node.outputs]


def _formula(op_type: str) -> Callable[..., Any] | None:
    packet = getattr(torch.ops.aten, op_type, None)
    return flop_registry.get(packet) if packet is not None else None


def _counted(formula: Callable[..., Any], node: OpNode) -> int | None:
    shapes = [edge.spec.shape for edge in node.inputs]
    attributes = attribute_values(node)
    arguments: list[Any] = list(shapes)
    out: Any = node.outputs[0].shape if node.outputs else ()
    # Torch's formulas read of a convolution's arguments only these.
    transposed = attributes.get("transposed", False)
    if node.type == "convolution":
        bias = shapes[2] if len(shapes) > 2 else None
        arguments = [*shapes[:2], bias, None, None, None, transposed]
    elif node.type == "convolution_backward":
        mask = attributes.get("output_mask", [True, True, True])
        arguments = [*shapes[:3], None, None, None, None, transposed, None, None, mask]
        out = [spec.shape for spec in node.outputs]
    try:
        return int(formula(*arguments, out_val=out))
    except (TypeError, ValueError, IndexError, AssertionError):
        return None  # a use of the op for which the formula was not written


def attribute_values(node: OpNode) -> dict[str, Any]:
    """The arguments that are not tensors, as values if their text is a literal."""
    return {name: _value(text) for name, text in node.attributes}


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def spec_bytes(spec: TensorSpec) -> int:
    """Bytes of a tensor of this shape and dtype."""
    return math.prod(spec.shape) * item_size(spec.dtype)


def item_size(dtype: str) -> int:
    """Bytes of one element of the dtype with this name."""
    found = getattr(torch, dtype, None)
    return found.itemsize if isinstance(found, torch.dtype) else 4
