"""Summaries of a comparison: losses, subnets and layers, and the growth of rounding errors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from math import exp, isfinite, isnan, log
from statistics import median
from typing import Final, Literal

from sonde.compare.options import CompareOptions
from sonde.compare.runs.kinds import behaviour_of, is_plumbing
from sonde.compare.runs.pairing.alignment import Alignment
from sonde.compare.runs.result import Growth, LossPair, OpPair, Part, Status
from sonde.compare.runs.run_side import RunSide, SideOp
from sonde.core.dtypes import BY_NAME
from sonde.core.errors import DumpError

LOSS_RTOL: Final = 1e-3
"""The relative tolerance of two losses of one step, as in migration guides."""
LOSS_RTOL_LOW_PRECISION: Final = 2e-2

_RANKING: Final[tuple[Status, ...]] = (
    "not dumped",
    "equal",
    "within",
    "rounding",
    "incomparable",
    "inherited",
    "diverged",
)
_MODULE = re.compile(r"^(?:Gradients/)?Default/(?:network-[^/]+/?)?")


def loss_of(
    found: Alignment, step: int, rank: int, options: CompareOptions, *, mixed: bool
) -> LossPair:
    """The losses of a step; None if no op of the forward pass computes a scalar."""
    op_a, op_b = _loss_op(found.a), _loss_op(found.b)
    a, b = _number(found.a, op_a), _number(found.b, op_b)
    agrees: bool | None = None
    if a is not None and b is not None:
        rtol, atol = LOSS_RTOL_LOW_PRECISION if mixed else LOSS_RTOL, 0.0
        if options.is_strict:
            rtol, atol = options.rtol or 0.0, options.atol or 0.0
        near = abs(a - b) <= atol + rtol * max(abs(a), abs(b))
        agrees = near or (isnan(a) and isnan(b)) or a == b
    names = (None if op is None else op.name for op in (op_a, op_b))
    return LossPair(step, rank, a, b, agrees, *names)


def _loss_op(side: RunSide) -> SideOp | None:
    """The op whose scalar starts the backward pass, or else the last loss op or scalar."""
    for op in side.ops:
        if op.type == "ones_like" and op.size == 1 and op.inputs:
            root = side.producer(side.root(op.inputs[0]))
            if root is not None and root.phase == "forward" and _is_float(root):
                return root
    numbers = [
        op
        for op in side.ops
        if not op.is_leaf
        and op.phase == "forward"
        and op.size == 1
        and not is_plumbing(op.type)
        and _is_float(op)
    ]
    losses = [op for op in numbers if behaviour_of(op.type) == "loss"]
    found = losses or numbers
    return found[-1] if found else None


def _is_float(op: SideOp) -> bool:
    dtype = BY_NAME.get(op.outputs[0].spec.dtype) if op.outputs else None
    return dtype is not None and dtype.is_float


def _number(side: RunSide, op: SideOp | None) -> float | None:
    record = None if op is None else side.output_record(op.value)
    try:
        return None if record is None else record.single_number()
    except (DumpError, IndexError):
        return None


def parts_of(pairs: Iterable[OpPair]) -> tuple[Part, ...]:
    """Subnets and layers in execution order, each with its worst pair; forward ops only."""
    worst: dict[tuple[int, Literal["subnet", "layer"], str], list[OpPair]] = {}
    for pair in pairs:
        if pair.phase != "forward" or not pair.scope or pair.is_leaf:
            continue
        for level, name in _levels(pair.scope):
            worst.setdefault((pair.step, level, name), []).append(pair)
    return tuple(
        Part(
            step,
            name,
            level,
            len(group),
            max((each.error for each in group if not isnan(each.error)), default=0.0),
            max((each.status for each in group), key=_RANKING.index),
        )
        for (step, level, name), group in worst.items()
    )


def module_path(scope: str) -> str:
    """A scope as a module path: ``blocks.1.fc`` for Default/network-GPT/blocks-ModuleList/..."""
    inner = _MODULE.sub("", scope)
    inner = re.sub(r"^_backbone-[^/]+/?", "", inner)
    return ".".join(part.partition("-")[0] for part in inner.split("/") if part)


def _levels(scope: str) -> Iterator[tuple[Literal["subnet", "layer"], str]]:
    path = module_path(scope)
    if not path:
        return
    parts = path.split(".")
    depth = 2 if len(parts) > 1 and parts[1].isdigit() else 1
    yield "subnet", ".".join(parts[:depth])
    yield "layer", path


def growth_of(pairs: Sequence[OpPair]) -> tuple[Growth, ...]:
    """The trend of the errors of the forward pass, before the first fault."""
    found = []
    for step in dict.fromkeys(pair.step for pair in pairs):
        errors = [
            pair.error
            for pair in pairs
            if pair.step == step
            and pair.phase == "forward"
            and pair.status in ("within", "rounding")
            and pair.error > 0
            and isfinite(pair.error)
        ]
        if len(errors) >= 4:
            edge = max(2, len(errors) // 10)
            first, last = median(errors[:edge]), median(errors[-edge:])
            per_op = exp(log(last / first) / len(errors))
            found.append(Growth(step, first, last, per_op))
    return tuple(found)
