"""The ops of one step as they ran."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal

Phase = Literal["forward", "backward", "optimizer"]
Kind = Literal["op", "parameter", "input", "constant"]

GRADIENTS: Final = "Gradients/"
"""What the names of backward scopes begin with; the rest is the name of the forward one."""

LEAF_TYPES: dict[Kind, str] = {
    "parameter": "Parameter",
    "input": "Input",
    "constant": "Constant",
}


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """What is known of a tensor without its values: dtype name (see ``core.dtypes``) and shape."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


@dataclass(frozen=True, slots=True)
class Source:
    """One frame of the user's code; ``code`` is the text of the line, or empty if not at hand."""

    file: str
    line: int
    function: str
    code: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Edge:
    """Where one input of an op comes from: slot ``slot`` of the outputs of node ``producer``.

    ``producer`` is a full node name, or None where the origin is not known (a dump without graph).
    """

    producer: str | None
    slot: int
    spec: TensorSpec


@dataclass(frozen=True, slots=True)
class OpNode:
    """One operator of a graph, or a leaf: a parameter, an input, a constant.

    ``name`` is unique in its graph. ``sources`` goes from the innermost frame of the user's code
    outwards; for a backward op it is the source of the forward op that caused it. ``attributes``
    are the arguments that are not tensors, by their schema name, as text.
    """

    name: str
    type: str
    scope: str
    phase: Phase
    kind: Kind = "op"
    inputs: tuple[Edge, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    attributes: tuple[tuple[str, str], ...] = ()
    sources: tuple[Source, ...] = ()

    @property
    def source(self) -> Source | None:
        """The innermost line of the user's code that made this op run."""
        return self.sources[0] if self.sources else None


@dataclass(frozen=True)
class Graph:
    """Nodes in execution order; a leaf stands just before its first use.

    Two graphs with the same nodes in the same order, wired alike, are the same structure whatever
    their shapes: ``structure`` is that identity. ``id`` and ``name`` are labels of one run.
    """

    id: int
    name: str
    nodes: tuple[OpNode, ...]
    _by_name: dict[str, OpNode] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {node.name: node for node in self.nodes})

    def __iter__(self) -> Iterator[OpNode]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def node(self, name: str) -> OpNode:
        """The node with this full name; KeyError if there is none."""
        return self._by_name[name]

    @property
    def ops(self) -> tuple[OpNode, ...]:
        """The operators alone, in execution order, without leaves."""
        return tuple(node for node in self.nodes if node.kind == "op")

    @cached_property
    def structure(self) -> int:
        """A number equal for graphs of equal structure (names, types, phases, wiring)."""
        return hash(
            tuple(
                (node.name, node.type, node.phase, tuple((e.producer, e.slot) for e in node.inputs))
                for node in self.nodes
            )
        )

    def consumers(self, name: str) -> tuple[OpNode, ...]:
        """The nodes that read an output of ``name``, in execution order."""
        return tuple(
            node for node in self.nodes if any(edge.producer == name for edge in node.inputs)
        )


def but_gradients(names: Iterable[str]) -> list[str]:
    """Each once, without the backward copies of those that are there as well: who writes the end of
    a name means the op rather than its gradient."""
    known = dict.fromkeys(names)
    return [
        name
        for name in known
        if not (name.startswith(GRADIENTS) and name.removeprefix(GRADIENTS) in known)
    ]
