"""What is known of the first step before it has run: modules, parameters, ops that were traced."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from sonde.core.graph import LEAF_TYPES, Edge, OpNode, TensorSpec
from sonde.debugger.trainee import ForwardTrace, Held, ModuleScope
from sonde.wire.shapes import GraphBasis

FORWARD: Final = "forward"
"""The last part of the name of a node that stands for the ops of a module, which are not known."""


class ExpectedStep:
    """The nodes of the first step, as expected. Used from the training thread only.

    A module whose ops are not known has one node in its scope that stands for them. When ops of the
    forward pass were traced, they replace these nodes.
    """

    def __init__(self) -> None:
        self._modules: tuple[OpNode, ...] = ()
        self._trace = ForwardTrace()

    def __bool__(self) -> bool:
        return bool(self._modules or self._trace.nodes)

    @property
    def basis(self) -> GraphBasis:
        return "trace" if self._trace.nodes else "modules"

    def set_modules(self, modules: Sequence[ModuleScope], held: Sequence[Held]) -> bool:
        """Take over the known modules and what they hold; whether that is new."""
        before, self._modules = self._modules, tuple(_module_nodes(modules, held))
        return before != self._modules

    def set_trace(self, trace: ForwardTrace) -> None:
        self._trace = trace

    def nodes(self, ran: Sequence[OpNode] = ()) -> Iterator[OpNode]:
        """The nodes that are expected after those that ``ran``."""
        known = {node.name for node in ran}
        scopes = {node.scope for node in ran if node.kind == "op"}
        traced = {node.name for node in self._trace.nodes}
        for node in self._trace.nodes:
            if node.name not in known:
                yield node
        for node in self._modules:
            if node.name in known or node.name in traced:
                continue
            is_replaced = node.scope in scopes or _is_inside(node.scope, self._trace.scope)
            if node.kind != "op" or not is_replaced:
                yield node


def _is_inside(scope: str, outer: str) -> bool:
    return bool(outer) and f"{scope}/".startswith(f"{outer}/")


def _module_nodes(modules: Sequence[ModuleScope], held: Sequence[Held]) -> Iterator[OpNode]:
    by_scope: dict[str, list[OpNode]] = {}
    for each in held:
        by_scope.setdefault(each.scope, []).append(parameter_leaf(each))
    for module in modules:
        leaves = by_scope.pop(module.scope, [])
        yield from leaves
        yield OpNode(
            name=f"{module.scope}/{FORWARD}",
            type=module.type,
            scope=module.scope,
            phase="forward",
            inputs=tuple(Edge(leaf.name, 0, leaf.outputs[0]) for leaf in leaves),
        )
    for leaves in by_scope.values():
        yield from leaves


def parameter_leaf(held: Held) -> OpNode:
    """The leaf of a parameter or buffer that no op has read yet."""
    view = held.value()
    return OpNode(
        name=held.name,
        type=LEAF_TYPES["parameter"],
        scope=held.scope,
        phase="forward",
        kind="parameter",
        outputs=(TensorSpec(view.dtype, view.shape),),
    )
