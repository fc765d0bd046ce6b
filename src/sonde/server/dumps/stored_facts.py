"""The values of an op of a dump, from which its NaN and Inf are explained."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from numpy.typing import NDArray

from sonde.core.graph import OpNode
from sonde.core.statistics import Statistics
from sonde.server.dumps.index import StepTensors, StoredTensor
from sonde.server.dumps.values import DumpTensor
from sonde.watch.explanations import OpFacts, TensorFacts

_COUNTS: Final = ("nan count", "positive inf count", "negative inf count")


def stored_facts(listing: StepTensors, node: OpNode) -> OpFacts | None:
    """The facts of ``node``; None if the dump does not tell how many NaN and Inf it made. An input
    that the dump lacks is the output that it comes from."""
    outputs = [
        _facts(listing, found, found.slot)
        for found in listing.of_op(node.name)
        if found.io == "output" and _has_counts(found)
    ]
    if not outputs:
        return None
    inputs = list(_inputs(listing, node))
    is_complete = len(inputs) == len(node.inputs)
    return OpFacts(node.type, inputs, outputs, dict(node.attributes), is_complete)


def _inputs(listing: StepTensors, node: OpNode) -> Iterator[TensorFacts]:
    for slot, edge in enumerate(node.inputs):
        found = listing.find(node.name, "input", slot)
        if found is None and edge.producer is not None:
            found = listing.find(edge.producer, "output", edge.slot)
        if found is not None:
            yield _facts(listing, found, slot)


def _has_counts(stored: StoredTensor) -> bool:
    """Whether the values are there, or their NaN and Inf were counted."""
    row = stored.row
    return stored.file is not None or (row is not None and all(n in row.values for n in _COUNTS))


def _facts(listing: StepTensors, stored: StoredTensor, slot: int) -> TensorFacts:
    tensor = DumpTensor(listing, stored)

    def read() -> NDArray[Any] | None:
        return tensor.values().array if tensor.has_values else None

    def measure() -> Statistics | None:
        return None if tensor.row is None else tensor.row.as_statistics()

    return TensorFacts(slot, tensor.dtype, tensor.shape, read, measure)
