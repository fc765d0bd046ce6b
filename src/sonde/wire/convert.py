"""Converts types of the core to types of the wire."""

from __future__ import annotations

from typing import Any, TypeVar

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

WireType = TypeVar("WireType", bound=Plain)


def copy_fields(source: object, kind: type[WireType], /, **given: Any) -> WireType:
    """A ``kind`` with the fields of ``source`` that have the same names, floats in their wire form.
    ``given``: the fields that ``source`` lacks or that must be converted."""
    for name in kind.__struct_fields__:
        if name not in given:
            value = getattr(source, name)
            given[name] = to_wire(value) if isinstance(value, float) else value
    return kind(**given)


def statistic_numbers(statistics: Statistics) -> StatisticNumbers:
    """All numbers; NaN and infinities as text, as are whole numbers beyond 2**53."""
    return StatisticNumbers(
        statistics.count,
        statistics.nan_count,
        statistics.positive_inf_count,
        statistics.negative_inf_count,
        statistics.zero_count,
        statistics.negative_count,
        statistics.positive_count,
        max=to_wire(statistics.max),
        min=to_wire(statistics.min),
        finite_max=to_wire(statistics.finite_max),
        finite_min=to_wire(statistics.finite_min),
        avg=to_wire(statistics.avg),
        l2norm=to_wire(statistics.l2norm),
        std=to_wire(statistics.std),
        abs_mean=to_wire(statistics.abs_mean),
    )


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
    return DistanceNumbers(
        max_abs_error=to_wire(found.max_abs_error),
        mean_abs_error=to_wire(found.mean_abs_error),
        max_relative_error=to_wire(found.max_relative_error),
        mean_relative_error=to_wire(found.mean_relative_error),
        cosine=to_wire(found.cosine),
        relative_l2=to_wire(found.relative_l2),
        max_ulp=to_wire(found.max_ulp if max_ulp is None else max_ulp),
        within_1=found.within_1,
        within_5=found.within_5,
        equal_count=found.equal_count,
        count=found.count,
        non_finite_disagreed=found.non_finite_disagreed,
    )
