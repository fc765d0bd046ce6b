"""The contents of a ``.pb`` graph file before names are resolved."""

from __future__ import annotations

from dataclasses import dataclass, field

from sonde.core.graph import Source, TensorSpec


@dataclass(slots=True)
class RawInput:
    """One ``InputProto``; ``producer`` is a position, in files by Sonde."""

    name: str = ""
    producer: int | None = None
    producer_name: str | None = None
    slot: int = 0
    spec: TensorSpec | None = None


@dataclass(slots=True)
class RawNode:
    """A ``NodeProto``, ``ParameterProto`` or ``NamedValueProto``; ``key`` is what inputs refer to.

    ``position`` is None in files by MindSpore; ``index`` is the value of an integer constant.
    """

    at: int
    kind: int
    key: str = ""
    name: str = ""
    type: str = ""
    scope: str = ""
    phase: int = 0
    position: int | None = None
    index: int | None = None
    inputs: list[RawInput] = field(default_factory=list)
    outputs: tuple[TensorSpec, ...] = ()
    attributes: list[tuple[str, str]] = field(default_factory=list)
    sources: tuple[int, ...] = ()
    source_address: str = ""


@dataclass(slots=True)
class RawGraph:
    """A ``GraphProto``; ``id`` is None in files by MindSpore."""

    id: int | None = None
    name: str = ""
    nodes: list[RawNode] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
