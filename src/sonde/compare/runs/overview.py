"""Summaries of a comparison: losses, subnets and layers, and the growth of rounding errors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from math import exp, isfinite, isnan, log
from statistics import median
from typing import Final, Literal

from sonde.compare.options import CompareOptions
from sonde.compare.runs.loss import loss_op, loss_value
from sonde.compare.runs.pairing.alignment import Alignment
from sonde.compare.runs.result import Growth, LossPair, OpPair, Part, Status
from sonde.compare.runs.run_side import SideOp
from sonde.compare.runs.tolerance import ROUNDOFF

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
    op_a, op_b = loss_op(found.a), loss_op(found.b)
    a, b = loss_value(found.a, op_a), loss_value(found.b, op_b)
    agrees: bool | None = None
    if a is not None and b is not None:
        is_low = mixed or any(op is not None and _is_low_precision(op) for op in (op_a, op_b))
        rtol, atol = LOSS_RTOL_LOW_PRECISION if is_low else LOSS_RTOL, 0.0
        if options.is_strict:
            rtol, atol = options.rtol or 0.0, options.atol or 0.0
        near = abs(a - b) <= atol + rtol * max(abs(a), abs(b))
        agrees = near or (isnan(a) and isnan(b)) or a == b
    names = (None if op is None else op.name for op in (op_a, op_b))
    return LossPair(step, rank, a, b, agrees, *names)


def _is_low_precision(loss: SideOp) -> bool:
    """Whether rounding the loss to its own dtype changes it by as much as 1/1000."""
    return bool(loss.outputs) and ROUNDOFF.get(loss.outputs[0].spec.dtype, 0.0) > LOSS_RTOL


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
