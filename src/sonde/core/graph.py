"""The ops of one step as they ran."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Literal

from sonde.core.own_code import is_own, short_path

Phase = Literal["forward", "backward", "optimizer"]
Kind = Literal["op", "parameter", "input", "constant"]

GRADIENTS: Final = "Gradients/"
COMPILED: Final = "compiled"
"""The attribute of ops that are part of code that ``torch.compile`` compiled."""
"""The prefix of the names of backward scopes; the rest is the name of the forward scope."""
FORWARD_OP: Final = "forward"
"""The attribute of backward ops: the name of the forward op whose gradient they compute."""
OPTIMIZER: Final = "optimizer"
"""The name of the scope of an optimizer: ``Default/optimizer-SGD``."""

LEAF_TYPES: dict[Kind, str] = {
    "parameter": "Parameter",
    "input": "Input",
    "constant": "Constant",
}


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Dtype name (see ``core.dtypes``) and shape of a tensor."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


@dataclass(frozen=True, slots=True)
class Source:
    """One frame of the user's code; ``code`` is the text of the line, or empty if unknown.

    ``library``: the frame in a library that the op ran in, where this is the user's own frame that
    called the library; None if the op ran in this frame.
    """

    file: str
    line: int
    function: str
    code: str
    library: Source | None = None

    def __str__(self) -> str:
        inside = "" if self.library is None else f" ({self.library_text})"
        return f"{self.file}:{self.line}{inside}"

    @property
    def library_text(self) -> str:
        """``in transformers/pytorch_utils.py:119``; empty without a library's frame."""
        if self.library is None:
            return ""
        return f"in {short_path(self.library.file)}:{self.library.line}"

    def fields(self) -> dict[str, Any]:
        """The fields as they are written to JSON; without ``library`` if there is none."""
        found = asdict(self)
        if self.library is None:
            del found["library"]
        else:
            del found["library"]["library"]
        return found


def shown_source(sources: tuple[Source, ...]) -> Source | None:
    """The frame to show of a stack, innermost first: the innermost of the user's own, with the
    library's innermost frame beside it. Without one of the user's own, the innermost."""
    if not sources:
        return None
    inner = sources[0]
    own = next((source for source in sources if is_own(source.file)), inner)
    return inner if own is inner else replace(own, library=inner)


@dataclass(frozen=True, slots=True)
class Edge:
    """Where one input of an op comes from: slot ``slot`` of the outputs of node ``producer``.

    ``producer`` is a full node name, or None where the producer is unknown (a dump without graph).
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
        """The line to show for this op, see `shown_source`."""
        return shown_source(self.sources)

    @property
    def gradient_of(self) -> str:
        """The operator whose gradient this op computes, ``sqrt``; empty if it computes none."""
        name = dict(self.attributes).get(FORWARD_OP, "")
        operator = name.rpartition("/")[2].rpartition("-op")[0]
        return operator.rstrip("_") or operator


@dataclass(frozen=True)
class Graph:
    """Nodes in execution order; a leaf comes just before its first use.

    Two graphs with the same nodes in the same order and the same edges have the same structure,
    whatever their shapes: ``structure`` is that identity. ``id`` and ``name`` label it in one run.
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
        """The node with this full name; KeyError if the graph has no such node."""
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


def phase_of(name: str) -> Phase:
    """The phase in which an op runs, from its full name or scope."""
    if name.startswith(GRADIENTS):
        return "backward"
    return "optimizer" if name.startswith(f"Default/{OPTIMIZER}-") else "forward"


_SHOWN_SCOPES: Final = (
    ("Gradients/Default/", "Backward/"),
    (GRADIENTS, "Backward/"),
    ("recompute_Default/", "Recomputed/"),
    ("Default/", ""),
)


def shown_name(name: str) -> str:
    """The name of an op as sentences write it: without the scope that all ops of a phase share."""
    for scope, shown in _SHOWN_SCOPES:
        if name.startswith(scope):
            return f"{shown}{name.removeprefix(scope)}"
    return name


def but_gradients(names: Iterable[str]) -> list[str]:
    """The distinct names, without the gradients of ops that are among them.

    For names found by their end: the user means the op rather than its gradient.
    """
    known = dict.fromkeys(names)
    return [
        name
        for name in known
        if not (name.startswith(GRADIENTS) and name.removeprefix(GRADIENTS) in known)
    ]
