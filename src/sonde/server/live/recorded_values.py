"""Answers questions about statistics: from the training process, and from what it sent before."""

from __future__ import annotations

import asyncio
from math import prod
from typing import Final

import msgspec

from sonde.core.errors import UsageError
from sonde.server.graph.index import GraphIndex
from sonde.server.graph.level_values import OpValues, statistic_value
from sonde.server.live import values as live_values
from sonde.server.live.history import latest_outputs
from sonde.server.live.rank import LiveRank
from sonde.wire.api import StatisticCurve
from sonde.wire.questions import AskOp, OpTensor, OpTensors
from sonde.wire.shapes import Io, Node, TensorName, TensorType

_MOST_ASKED: Final = 600
_ENDED = "the training has ended, and the values were not saved"


async def op_tensors(rank: LiveRank, name: TensorName) -> OpTensors:
    """The inputs and outputs of an op; of those without values, the statistics that were recorded.
    A training that has ended leaves these; UsageError without them."""
    if rank.link is not None:
        found = await live_values.ask(rank.link, name, AskOp())
        assert isinstance(found, OpTensors)
    else:
        known = (await _index_with(rank, name.op)).node(name.op)
        found = OpTensors(name.op, name.step, _without_values(known), known.sources)
    node = await _node(rank, name.op)
    return msgspec.structs.replace(
        found, tensors=tuple(_completed(rank, name, node, each) for each in found.tensors)
    )


def _completed(rank: LiveRank, name: TensorName, node: Node | None, tensor: OpTensor) -> OpTensor:
    """``tensor`` with recorded statistics if it has none. An input is the output of another op."""
    if tensor.statistics is not None:
        return tensor
    op, slot = name.op, tensor.slot
    if tensor.io == "input":
        edge = None if node is None or slot >= len(node.inputs) else node.inputs[slot]
        if edge is None or edge.producer is None:
            return tensor
        op, slot = edge.producer, edge.slot
    latest = rank.history.latest(op, slot, name.step)
    if latest is None:
        return tensor
    return msgspec.structs.replace(tensor, statistics=latest[1], statistics_step=latest[0])


def _without_values(node: Node) -> tuple[OpTensor, ...]:
    types: dict[Io, list[TensorType]] = {
        "input": [edge.type for edge in node.inputs],
        "output": [*node.outputs],
    }
    return tuple(
        OpTensor(io, slot, type_, None, False, (), _ENDED)
        for io in types
        for slot, type_ in enumerate(types[io])
    )


async def op_values(
    rank: LiveRank, index: GraphIndex, step: int | None, statistic: str
) -> OpValues:
    """A statistic of the ops of a graph, as recorded in ``step``, None: each in the last step that
    has it. Weights and gradients that were not recorded are asked for, if the training runs."""
    names = [node.name for node in index.nodes]
    last, outputs = await asyncio.to_thread(latest_outputs, rank.history.of_ops(step), names)
    values = {op: statistic_value(statistic, numbers) for op, numbers in outputs.items()}
    found = {op: value for op, value in values.items() if value is not None}
    if rank.link is not None:
        others = [n.name for n in index.nodes if n.kind == "parameter" and n.name not in outputs]
        found |= await live_values.statistics_of(rank.link, others[:_MOST_ASKED], step, statistic)
    return OpValues(statistic, step if last is None else last, found)


async def curve(rank: LiveRank, tensor: TensorName) -> StatisticCurve:
    """The statistics of a tensor in all steps of which they are known."""
    node = await _node(rank, tensor.op)
    op, slot = await maker(rank, tensor)
    type_ = None if node is None else _type(node, tensor)
    kept = None if rank.link is None else await live_values.curve(rank.link, tensor)
    if kept is not None:
        type_ = kept.type
    count = 0 if type_ is None else prod(type_.shape)
    points = {each.step: each for each in rank.history.points(op, slot, count)}
    if kept is not None:
        for each in kept.points:
            ratio = points[each.step].update_ratio if each.step in points else None
            points[each.step] = msgspec.structs.replace(each, update_ratio=ratio)
    if type_ is None:
        raise UsageError(f"{tensor.op} has no {tensor.io} {tensor.slot}", slug="no-such-tensor")
    return StatisticCurve(
        tensor.op,
        tensor.io,
        tensor.slot,
        type_,
        tuple(points[step] for step in sorted(points)),
        op in rank.recorded or rank.history.is_measured(op),
    )


async def maker(rank: LiveRank, tensor: TensorName) -> tuple[str, int]:
    """The op and the slot of the output that a tensor is; an op without a name for an input that
    comes from outside of the graph."""
    if tensor.io == "output":
        return tensor.op, tensor.slot
    node = await _node(rank, tensor.op)
    if node is None or tensor.slot >= len(node.inputs):
        return "", 0
    edge = node.inputs[tensor.slot]
    return edge.producer or "", edge.slot


def _type(node: Node, tensor: TensorName) -> TensorType | None:
    types = node.outputs if tensor.io == "output" else [edge.type for edge in node.inputs]
    return types[tensor.slot] if tensor.slot < len(types) else None


async def _node(rank: LiveRank, op: str) -> Node | None:
    try:
        index = await _index_with(rank, op)
    except UsageError:
        return None
    number = index.numbers.get(op)
    return None if number is None else index.nodes[number]


async def _index_with(rank: LiveRank, op: str) -> GraphIndex:
    """The graph that has the op: the one that runs or ran last, else the newest."""
    current = await rank.graph(None)
    if op in current.numbers:
        return current
    for info in reversed(rank.graphs.infos):
        index = await rank.graph(info.id)
        if op in index.numbers:
            return index
    return current
