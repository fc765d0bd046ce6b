"""Converts types of the core to types of the wire."""

from __future__ import annotations

from typing import Any

from sonde.core.graph import OpNode, Source, TensorSpec
from sonde.core.statistics import Statistics
from sonde.kernels.distances import Distances
from sonde.wire.numbers import to_wire
from sonde.wire.questions import DistanceNumbers
from sonde.wire.shapes import (
    Category,
    InputEdge,
    Node,
    Plain,
    SourceLine,
    StatisticNumbers,
    TensorType,
)


def statistic_numbers(statistics: Statistics) -> StatisticNumbers:
    """All numbers; NaN and infinities as text, as are whole numbers beyond 2**53."""
    return StatisticNumbers(**_wire_fields(statistics, StatisticNumbers))


def tensor_type(spec: TensorSpec) -> TensorType:
    return TensorType(spec.dtype, spec.shape)


def source_line(source: Source) -> SourceLine:
    return SourceLine(source.file, source.line, source.function, source.code)


def wire_node(node: OpNode, order: int, categories: tuple[Category, ...] = ("tensor",)) -> Node:
    """``order``: the place of the node in the execution, leaves included."""
    return Node(
        node.name,
        node.type,
        node.scope,
        node.phase,
        node.kind,
        order,
        tuple(InputEdge(edge.producer, edge.slot, tensor_type(edge.spec)) for edge in node.inputs),
        tuple(tensor_type(spec) for spec in node.outputs),
        node.attributes,
        tuple(source_line(source) for source in node.sources),
        categories,
    )


def distance_numbers(found: Distances, *, max_ulp: float | None = None) -> DistanceNumbers:
    """The distances of two tensors; ``max_ulp`` replaces that of the kernel."""
    numbers = _wire_fields(found, DistanceNumbers)
    if max_ulp is not None:
        numbers["max_ulp"] = to_wire(max_ulp)
    return DistanceNumbers(**numbers)


def _wire_fields(numbers: Statistics | Distances, wire_type: type[Plain]) -> dict[str, Any]:
    """The attributes of ``numbers`` that ``wire_type`` has, in their wire form."""
    return {name: to_wire(getattr(numbers, name)) for name in wire_type.__struct_fields__}
