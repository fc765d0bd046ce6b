"""Replaces the random ops of a graph by further inputs with the numbers they drew."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from sonde.adapters.torch.compile_check.ways import TracedAotGraph


def with_random_inputs(kept: TracedAotGraph) -> tuple[fx.GraphModule, list[Any]]:
    """The graph with the numbers of its random ops as further inputs, and those inputs."""
    graph = fx.Graph()
    inputs = list(kept.inputs)
    env: dict[fx.Node, Any] = {}
    given: list[tuple[fx.Node, Any]] = []
    for node, drawn in kept.drawn.items():
        parts = enumerate(drawn) if isinstance(drawn, tuple) else [(None, drawn)]
        given += [
            (user, part)
            for number, part in parts
            for user in ([node] if number is None else list(node.users))
            if number is None or (user.args[1] == number and not (_drops(node) and number == 0))
        ]
    placeholders = [node for node in kept.graph.graph.nodes if node.op == "placeholder"]
    for node in placeholders:
        env[node] = graph.node_copy(node, lambda other: env[other])
    for node, value in given:
        env[node] = graph.placeholder(f"drawn_{node.name}")
        env[node].meta = dict(node.meta)
        inputs.append(value)
    for node in kept.graph.graph.nodes:
        if node in env or (node in kept.drawn and isinstance(kept.drawn[node], tuple)):
            continue
        if node.target is operator.getitem and _drops(node.args[0]) and node.args[0] in kept.drawn:
            env[node] = _dropped(graph, node, env, inputs, kept)
            continue
        env[node] = graph.node_copy(node, lambda other: env[other])
    module = fx.GraphModule(kept.graph, graph)
    return module, inputs


def _drops(node: Any) -> bool:
    return isinstance(node, fx.Node) and node.target is torch.ops.aten.native_dropout.default


def _dropped(
    graph: fx.Graph, node: fx.Node, env: dict[fx.Node, Any], inputs: list[Any], kept: TracedAotGraph
) -> fx.Node:
    """The results of a dropout, computed from the mask that was drawn."""
    source: Any = node.args[0]
    values, probability = source.args[0], float(source.args[1])
    scale = 0.0 if probability >= 1 else 1 / (1 - probability)
    masks = [user for user in source.users if user.args[1] == 1]
    if masks:
        mask = env[masks[0]]
    else:
        with graph.inserting_before(next(iter(graph.nodes))):
            mask = graph.placeholder(f"drawn_{source.name}")
        drawn = kept.drawn[source][1]
        inputs.insert(0, drawn)
        mask.meta["val"] = drawn
    masked = graph.call_function(torch.ops.aten.mul.Tensor, (env[values], mask))
    made = graph.call_function(torch.ops.aten.mul.Tensor, (masked, scale))
    masked.meta, made.meta = dict(node.meta), dict(node.meta)
    if not node.meta["val"].is_contiguous():
        return made
    # A product takes the memory order of its factors, with which a later view may be impossible.
    whole = graph.call_function(
        torch.ops.aten.clone.default, (made,), {"memory_format": torch.contiguous_format}
    )
    whole.meta = dict(node.meta)
    return whole
