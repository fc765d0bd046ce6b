"""Follows values through the graph."""

from __future__ import annotations

import torch

from sonde.core.graph import Graph, OpNode
from sonde.profile.analyse.cost import FREE_OPS


class Flow:
    """The producers and the consumers of the values of a graph."""

    def __init__(self, graph: Graph | None) -> None:
        self.ops = graph.ops if graph is not None else ()
        self._by_name: dict[str | None, OpNode] = {node.name: node for node in self.ops}
        self._consumers: dict[str, list[OpNode]] = {}
        for node in self.ops:
            for producer in {edge.producer for edge in node.inputs if edge.producer is not None}:
                self._consumers.setdefault(producer, []).append(node)

    def consumers(self, node: OpNode) -> list[OpNode]:
        return self._consumers.get(node.name, [])

    def only_for(self, targets: list[OpNode]) -> list[OpNode]:
        """The targets and every op whose result only the targets need, directly or indirectly."""
        chosen = {node.name: node for node in targets}
        waiting = list(targets)
        while waiting:
            for edge in waiting.pop().inputs:
                producer = self._by_name.get(edge.producer)
                if producer is None or producer.name in chosen:
                    continue
                if all(consumer.name in chosen for consumer in self.consumers(producer)):
                    chosen[producer.name] = producer
                    waiting.append(producer)
        return list(chosen.values())

    def next_through_light_ops(self, node: OpNode, wanted: set[str]) -> list[OpNode]:
        """The ops in ``wanted`` that use ``node``'s result directly or after light ops only.

        Light ops are views and elementwise ops.
        """
        found: list[OpNode] = []
        seen = {node.name}
        waiting = [node]
        while waiting:
            for consumer in self.consumers(waiting.pop()):
                if consumer.name in seen or consumer.phase != node.phase:
                    continue
                seen.add(consumer.name)
                if consumer.name in wanted:
                    found.append(consumer)
                elif consumer.type in FREE_OPS or is_pointwise(consumer.type):
                    waiting.append(consumer)
        return found


def is_pointwise(op_type: str) -> bool:
    """Whether an op is elementwise, by torch's own tags."""
    packet = getattr(torch.ops.aten, op_type, None)
    if packet is None or not hasattr(packet, "overloads"):
        return False
    return any(
        torch.Tag.pointwise in getattr(packet, overload).tags for overload in packet.overloads()
    )
