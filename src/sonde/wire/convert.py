"""Converts types of the core to types of the wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import lru_cache
from typing import Any, Final, TypeVar

from sonde.core.graph import Edge, OpNode, Source, TensorSpec, shown_source
from sonde.core.statistics import Statistics
from sonde.kernels.distances import Distances
from sonde.watch.headline import Headline
from sonde.watch.hits import WatchpointHit
from sonde.wire.numbers import to_wire
from sonde.wire.questions import DistanceNumbers
from sonde.wire.shapes import (
    Category,
    HeadlineText,
    Hit,
    InputEdge,
    Node,
    ParameterValue,
    Plain,
    SourceLine,
    StatisticNumbers,
    TensorType,
)

_STATISTICS: Final = StatisticNumbers.__struct_fields__
_NON_FINITE: Final = ("nan_count", "positive_inf_count", "negative_inf_count")
WireType = TypeVar("WireType", bound=Plain)


def copy_fields(source: object, kind: type[WireType], /, **given: Any) -> WireType:
    """A ``kind`` with the fields of ``source`` that have the same names, numbers in their wire
    form. ``given``: the fields that ``source`` lacks or that must be converted."""
    for name in kind.__struct_fields__:
        if name not in given:
            value = getattr(source, name)
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            given[name] = to_wire(value) if is_number else value
    return kind(**given)


def statistic_numbers(statistics: Statistics) -> StatisticNumbers:
    """All numbers; NaN and infinities as text, as are whole numbers beyond 2**53."""
    return copy_fields(statistics, StatisticNumbers)


def known_numbers(known: Mapping[str, float | int]) -> StatisticNumbers:
    """The statistics that are known; counts of NaN and Inf that are not known are 0."""
    found: dict[str, Any] = dict.fromkeys(_STATISTICS) | dict.fromkeys(_NON_FINITE, 0)
    return StatisticNumbers(**found | {name: to_wire(known[name]) for name in known})


@lru_cache(maxsize=4096)
def tensor_type(spec: TensorSpec) -> TensorType:
    return TensorType(spec.dtype, spec.shape)


def source_line(source: Source) -> SourceLine:
    return SourceLine(source.file, source.line, source.function, source.code, source.library_text)


def source_lines(sources: tuple[Source, ...]) -> tuple[SourceLine, ...]:
    """A stack, innermost first. The line to show has ``library`` if a library ran the op."""
    return _lines_with(sources, shown_source(sources))


@lru_cache(maxsize=4096)
def _lines_with(sources: tuple[Source, ...], shown: Source | None) -> tuple[SourceLine, ...]:
    """The ops of one line, of which a large network has thousands, share what is returned."""
    if shown is None or shown.library is None:
        return tuple(map(source_line, sources))
    at = sources.index(replace(shown, library=None))
    return (
        *map(source_line, sources[:at]),
        source_line(shown),
        *map(source_line, sources[at + 1 :]),
    )


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
        source_lines(node.sources),
        categories,
    )


def core_source(line: SourceLine) -> Source:
    return Source(line.file, line.line, line.function, line.code)


def shown_line(lines: tuple[SourceLine, ...]) -> Source | None:
    """The line to show of a node's lines; see `shown_source`."""
    return shown_source(tuple(map(core_source, lines)))


def core_node(node: Node) -> OpNode:
    """The node without its position and its categories."""
    return OpNode(
        node.name,
        node.type,
        node.scope,
        node.phase,
        node.kind,
        tuple(
            Edge(each.producer, each.slot, TensorSpec(each.type.dtype, each.type.shape))
            for each in node.inputs
        ),
        tuple(TensorSpec(each.dtype, each.shape) for each in node.outputs),
        node.attributes,
        tuple(core_source(each) for each in node.sources),
    )


def wire_hit(hit: WatchpointHit) -> Hit:
    return copy_fields(
        hit,
        Hit,
        **asdict(hit.where),
        condition=hit.rule,
        rank=hit.rank or 0,
        type=TensorType(hit.dtype, hit.shape),
        why=hit.message,
        values=tuple(copy_fields(each, ParameterValue) for each in hit.values),
        source=None if hit.source is None else source_line(hit.source),
        headline=headline_text(hit.headline),
        is_harmless=hit.reason is not None and hit.reason.code == "not_a_fault",
    )


def headline_text(headline: Headline | None) -> HeadlineText | None:
    if headline is None:
        return None
    source = None if headline.source is None else source_line(headline.source)
    return HeadlineText(headline.title, headline.text, source)


def distance_numbers(found: Distances, *, max_ulp: float | None = None) -> DistanceNumbers:
    """The distances of two tensors; ``max_ulp`` replaces that of the kernel."""
    given = {} if max_ulp is None else {"max_ulp": to_wire(max_ulp)}
    return copy_fields(found, DistanceNumbers, **given)
