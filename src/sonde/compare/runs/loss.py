"""Finds the loss of a step in a dump."""

from __future__ import annotations

from collections.abc import Sequence

from sonde.compare.runs.run_side import RunSide, SideOp
from sonde.core.dtypes import BY_NAME
from sonde.core.errors import DumpError
from sonde.core.operators.kinds import behaviour_of, is_plumbing

SEED = "ones_like"
"""The op of torch that computes the gradient of the loss; the loss is its input."""


def loss_op(side: RunSide) -> SideOp | None:
    """The op whose scalar starts the backward pass (with loss scaling: the scaled loss).

    If the dump does not show it: of the scalars of the forward pass, the last that an op such as
    ``mse_loss`` computes, or else the last; those before the backward pass come first.
    """
    for op in side.ops:
        if op.type == SEED and op.size == 1 and op.inputs:
            root = side.producer(side.root(op.inputs[0]))
            if root is not None and root.phase == "forward" and _is_float(root):
                return root
    backward = next((op.index for op in side.ops if op.phase == "backward"), len(side.ops))
    numbers = [
        op
        for op in side.ops
        if not op.is_leaf
        and op.phase == "forward"
        and op.size == 1
        and not is_plumbing(op.type)
        and _is_float(op)
    ]
    numbers = [op for op in numbers if op.index < backward] or numbers
    return numbers[last_loss([op.type for op in numbers])] if numbers else None


def last_loss(types: Sequence[str]) -> int:
    """The place of the last op that computes a loss, or else of the last, among the types of ops
    that compute a scalar; there is at least one."""
    losses = [place for place, each in enumerate(types) if behaviour_of(each) == "loss"]
    return losses[-1] if losses else len(types) - 1


def loss_value(side: RunSide, op: SideOp | None) -> float | None:
    """The value of the op that `loss_op` found; None if there is none or it cannot be read.

    In a dump of statistics, the maximum of a single element is its value.
    """
    record = None if op is None else side.output_record(op.value)
    try:
        return None if record is None else record.single_number()
    except (DumpError, IndexError):
        return None


def _is_float(op: SideOp) -> bool:
    dtype = BY_NAME.get(op.outputs[0].spec.dtype) if op.outputs else None
    return dtype is not None and dtype.is_float
