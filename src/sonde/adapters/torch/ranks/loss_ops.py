"""The ops of a step, from the graph of its loss: those that gradients go through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sonde.ranks.report import RankOp

_MOST_OPS: Final = 20_000
_LEAF: Final = "AccumulateGrad"


def ops_of(loss: Any, parameter_name: Callable[[Any], str]) -> tuple[RankOp, ...]:
    """The ops in the order in which they ran. ``parameter_name``: of a leaf, empty if unknown."""
    root = getattr(loss, "grad_fn", None)
    if root is None:
        return ()
    seen = {root}
    waiting = [root]
    found: list[tuple[int, RankOp]] = []
    while waiting and len(found) < _MOST_OPS:
        node = waiting.pop()
        parameter = ""
        for following, _ in node.next_functions:
            if following is None:
                continue
            if following.name().endswith(_LEAF):
                parameter = parameter or parameter_name(following.variable)
            elif following not in seen:
                seen.add(following)
                waiting.append(following)
        metadata = next(iter(node._input_metadata), None)
        shape = () if metadata is None else tuple(int(size) for size in metadata.shape)
        dtype = "" if metadata is None else str(metadata.dtype).removeprefix("torch.")
        name = node.name().rpartition("::")[2].partition("Backward")[0]
        found.append((node._sequence_nr(), RankOp(name, shape, dtype, parameter)))
    return tuple(op for _, op in sorted(found, key=lambda each: each[0]))
