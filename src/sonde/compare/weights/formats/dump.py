"""Reads the parameters in a dump, by Sonde or by MindSpore, as weights.

Sonde dumps a parameter as it is when the step first uses it, MindSpore as it is at the step's end.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonde.compare.weights.checkpoint import Checkpoint, Weight
from sonde.core.errors import DumpError
from sonde.core.graph import LEAF_TYPES, Graph, OpNode
from sonde.dump.reader import Dump
from sonde.dump.tensor_record import TensorRecord

_PARAMETER = LEAF_TYPES["parameter"]


def read_dump(path: Path, *, step: int | None = None, rank: int | None = None) -> Checkpoint:
    """The parameters in a step of a dump, in the order of the graph; by default the first step.

    DumpError if there is no such step, no parameter was dumped, or the graph is damaged.
    """
    dump = Dump(path)
    steps = dump.steps(rank=rank)
    if not steps or (step is not None and step not in steps):
        raise DumpError(
            f"{path}: step {'0' if step is None else step} is not in the dump; "
            f"there are {list(steps)[:20]}",
            slug="no-such-step",
        )
    wanted = steps[0] if step is None else step
    rank = dump.ranks[0] if rank is None else rank
    graphs = dump.graphs(rank, step=wanted)
    broken = next((each for each in dump.problems if each.path.suffix == ".pb"), None)
    if broken is not None:  # Parameters are recognised by the graph.
        raise DumpError(str(broken), slug="dump-file")
    weights: dict[str, Weight] = {}
    for record in dump.tensors(step=wanted, rank=rank):
        if record.op_type == _PARAMETER and record.key.op not in weights:
            weights[record.key.op] = _weight(record, graphs)
    if not weights:
        raise DumpError(
            f"{path}: step {wanted} has no parameters; dump all ops to have them",
            slug="no-parameters",
        )
    order = {node.name: place for graph in graphs for place, node in enumerate(graph)}
    ordered = sorted(weights, key=lambda name: order.get(name, len(order)))
    return Checkpoint(path, "dump", {name: weights[name] for name in ordered})


def _weight(record: TensorRecord, graphs: tuple[Graph, ...]) -> Weight:
    load: Callable[[], NDArray[Any]] | None = None
    stored_as = None
    if record.path is not None:
        load, stored_as = record.numpy, record.header.dtype
        if record.dtype == "bfloat16" and stored_as in ("bfloat16", "float32"):
            load, stored_as = (lambda: _narrowed(record.numpy())), None
    return Weight(
        record.key.op,
        record.dtype,
        record.shape,
        load,
        _is_trained(record.node, graphs),
        stored_as,
        None if record.row is None else record.row.values,
    )


def _narrowed(values: NDArray[Any]) -> NDArray[Any]:
    """The bits of bfloat16 values that are stored as float32: its upper half."""
    return (np.ascontiguousarray(values).view(np.uint32) >> np.uint32(16)).astype(np.uint16)


def _is_trained(node: OpNode | None, graphs: tuple[Graph, ...]) -> bool | None:
    """Whether both the forward pass and the optimizer read it; None without a graph."""
    if node is None:
        return None
    for graph in graphs:
        if node.name in graph:
            phases = {consumer.phase for consumer in graph.consumers(node.name)}
            if "optimizer" not in {op.phase for op in graph.ops}:
                return None
            return {"forward", "optimizer"} <= phases
    return None
