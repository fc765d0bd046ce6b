"""Reads one step of a dump as one side of a comparison."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from sonde.compare.runs.run_side import Output, RunSide, SideOp, SideValue
from sonde.core.errors import DumpError
from sonde.core.graph import GRADIENTS, Kind, OpNode, Phase, TensorSpec
from sonde.core.keys import Io
from sonde.core.operators.kinds import kind_of
from sonde.dump.reader import Dump
from sonde.dump.tensor_record import TensorRecord

_NOT_DATA = frozenset({"none", "string"})


def load_side(dump: Dump, step: int, rank: int, *, without_backward: bool = False) -> RunSide:
    """Read one step of one rank: its graphs and the names of its tensors, no values.

    ``without_backward``: the calls of the backward pass are left out, for msprobe against another
    program: its backward calls have the gradients of all inputs at once.
    """
    graphs = dump.graphs(rank, step=step)
    records: dict[tuple[str, Io, int], TensorRecord] = {}
    orders: dict[str, int] = {}
    for record in dump.tensors(step=step, rank=rank):
        key = record.key
        records.setdefault((key.op, key.io, key.slot), record)
        orders.setdefault(key.op, key.order)
    writer = dump.writer(rank)
    nodes = [node for graph in graphs for node in graph]
    if without_backward:
        dropped = {node.name for node in nodes if node.phase == "backward"}
        nodes = [node for node in nodes if node.name not in dropped]
        records = {key: each for key, each in records.items() if key[0] not in dropped}
        orders = {name: order for name, order in orders.items() if name not in dropped}
    known = {node.name for node in nodes}
    nodes += [_unknown_node(name, records) for name in orders if name not in known]
    if writer == "mindspore" or not graphs:
        nodes = _in_run_order(nodes, orders)
    structure = hash(tuple(graph.structure for graph in graphs)) if graphs else 0
    return RunSide(step, writer, list(_ops(nodes, records, writer)), records, structure)


def _unknown_node(name: str, records: dict[tuple[str, Io, int], TensorRecord]) -> OpNode:
    """A node for an op that is in no graph, made from its tensors."""
    own = [record for (op, _, _), record in records.items() if op == name]
    kind: Kind = "parameter" if own[0].op_type == "Parameter" else "op"
    scope = name.rpartition("/")[0]
    phase: Phase = "backward" if name.startswith(GRADIENTS) else "forward"
    return OpNode(name, own[0].op_type, scope, phase, kind)


def _in_run_order(nodes: list[OpNode], orders: dict[str, int]) -> list[OpNode]:
    """Sort by execution order; an op without tensors follows the last of its inputs."""
    place: dict[str, tuple[int, int]] = {}
    for number, node in enumerate(nodes):
        order = orders.get(node.name)
        if node.kind != "op" or order is None:
            before = [place[e.producer][0] for e in node.inputs if e.producer in place]
            order = max(before, default=-1) if node.kind == "op" else -1
        place[node.name] = (order, number)
    return sorted(nodes, key=lambda node: place[node.name])


def _ops(
    nodes: Iterable[OpNode],
    records: dict[tuple[str, Io, int], TensorRecord],
    writer: str | None,
) -> Iterator[SideOp]:
    index = 0
    slots: dict[str, set[int]] = defaultdict(set)
    for name, io, slot in records:
        if io == "output":
            slots[name].add(slot)
    for node in nodes:
        if node.kind == "constant" and node.name not in slots:
            continue
        outputs = _outputs(node, slots[node.name], records, writer)
        inputs = {
            slot: SideValue(edge.producer, edge.slot)
            for slot, edge in enumerate(node.inputs)
            if edge.producer is not None and edge.spec.dtype not in _NOT_DATA
        }
        for kind, chosen, some_outputs in _parts(node, tuple(inputs), outputs):
            yield SideOp(
                index,
                node.name,
                node.type,
                kind,
                node.phase,
                node.kind,
                node.scope,
                tuple(inputs[slot] for slot in chosen),
                chosen,
                some_outputs,
                node.attributes,
                node.source,
            )
            index += 1


def _outputs(
    node: OpNode,
    slots: set[int],
    records: dict[tuple[str, Io, int], TensorRecord],
    writer: str | None,
) -> tuple[Output, ...]:
    """The outputs of an op. Graphs by MindSpore lack the shapes of tuples; its files have them."""
    found = dict(enumerate(node.outputs))
    for slot in slots:
        is_tuple = writer == "mindspore" and len(node.outputs) != 1
        if is_tuple or node.kind != "op" or slot not in found:
            record = records[node.name, "output", slot]
            try:
                found[slot] = TensorSpec(record.dtype, record.shape)
            except DumpError:
                continue  # Damaged values are reported when they are compared.
    if node.kind != "op" and not found:
        found[0] = TensorSpec("none", (-1,))
    return tuple(Output(slot, spec) for slot, spec in sorted(found.items()))


def _parts(
    node: OpNode, inputs: tuple[int, ...], outputs: tuple[Output, ...]
) -> Iterator[tuple[str, tuple[int, ...], tuple[Output, ...]]]:
    """The op itself, or one part for each gradient of a convolution: kind, inputs, outputs."""
    if node.type != "convolution_backward" or inputs[:3] != (0, 1, 2):
        yield kind_of(node.type), inputs, outputs
        return
    gradients = [output for output in outputs if len(output.spec.shape) > 1]
    for output in outputs:
        if output not in gradients:
            yield "sum", (0,), (output,)
            continue
        is_filter = output.spec.shape == node.inputs[2].spec.shape
        if len(gradients) > 1:
            is_filter = output is not gradients[0]
        if is_filter:
            yield "conv_grad_filter", (0, 1), (output,)
        else:
            yield "conv_grad_input", (0, 2), (output,)
