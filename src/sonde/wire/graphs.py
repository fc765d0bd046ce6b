"""The server's JSON answers about graphs: levels, scopes, lists of nodes, lines of code, one op."""

from __future__ import annotations

from typing import Literal

from sonde.wire.numbers import Integer, Number
from sonde.wire.shapes import (
    Category,
    GraphBasis,
    Node,
    NodeKind,
    Phase,
    Plain,
    SourceLine,
    TensorType,
)

StepPart = Literal[
    "network", "data", "loss", "gradients", "backward", "recomputed", "optimizer", "other", ""
]


class GraphInfo(Plain, frozen=True):
    """``optimizer``: the one whose step ran the graph last; empty if unknown. ``basis``: where the
    nodes are known from, see ``rank.GraphPart``. ``nodes`` 0: not known yet. ``steps``: the first
    and last of consecutive steps that ran it, the newest ones if there are many. ``like``: for a
    graph that is still growing, the whole graph to show in its place, which has nearly all of its
    ops. ``here``: the place of the rank's current op in it. ``difference``: what it has that the
    usual graph has not, or the other way round; empty for the usual graph, and if it is not known.
    ``is_compiled``: it has ops of code that ``torch.compile`` compiled."""

    id: Integer
    name: str
    nodes: Integer
    whole: bool
    optimizer: str = ""
    basis: GraphBasis = "run"
    steps: tuple[tuple[Integer, Integer], ...] = ()
    like: Integer | None = None
    here: Integer | None = None
    difference: str = ""
    is_compiled: bool = False


class LevelNode(Plain, frozen=True):
    """One box of an expanded scope: an op, a leaf, a scope (with ``ops`` ops inside), or a group of
    ``stands_for`` similar ones drawn as one box (``members``: the paths of the first of them).

    ``path`` identifies the box: an op's full name, a scope that ends with ``/``, or for a group its
    scope, ``*`` and a word, which is the parameter ``group`` of the next request.

    ``part``: the part of the training step that a box of the outermost level stands for; empty in
    other levels. ``is_function``: a scope that only the page has, of consecutive ops outside of all
    modules; ``members`` are those ops. ``findings``: the kinds of the findings of the diagnosis
    that name the box, or something inside it.
    """

    path: str
    label: str
    what: Literal["op", "scope", "group", "outside"]
    type: str
    kind: NodeKind
    phase: Phase
    ops: Integer
    stands_for: Integer
    members: tuple[str, ...]
    hits: Integer
    has_origin: bool
    first_order: Integer
    last_order: Integer
    part: StepPart = ""
    is_function: bool = False
    findings: tuple[str, ...] = ()


class LevelEdge(Plain, frozen=True):
    """Data from one box to another: how many tensors, and the type if all have the same."""

    source: str
    target: str
    tensors: Integer
    label: str


class Level(Plain, frozen=True):
    """What is directly inside ``scope`` (empty: the whole graph), or the members of its group
    ``group``, in execution order. Boxes outside that exchange data with it are
    included with ``what == "outside"``. ``hidden``: boxes left out because there are too many."""

    graph: Integer
    scope: str
    group: str
    nodes: tuple[LevelNode, ...]
    edges: tuple[LevelEdge, ...]
    hidden: Integer = 0


class Opening(Plain, frozen=True):
    """The scopes of a graph that may be open at first: those of one depth together, outer ones
    before inner ones. The page opens as many depths as fit."""

    graph: Integer
    depths: tuple[tuple[str, ...], ...]


class ScopeParameter(Plain, frozen=True):
    """A parameter or buffer that ops of a scope read; ``elements``: how many numbers it has."""

    name: str
    type: TensorType
    elements: Integer
    is_weight: bool


class ScopeTensor(Plain, frozen=True):
    """A tensor that enters or leaves a scope: output ``slot`` of ``producer``."""

    producer: str
    slot: Integer
    type: TensorType


class ScopeView(Plain, frozen=True):
    """Everything about one scope. ``cls``: its class, empty if it is not a module. ``elements``: of
    all parameters together. ``inputs`` and ``outputs``: tensors exchanged with ops of the same
    phase. ``defined``: the line at which the class begins, if it is the user's own; ``called``: the
    line that called the module. ``op_names``: the ops of a scope that only the page has
    (``is_function``)."""

    path: str
    graph: Integer
    label: str
    cls: str
    phase: Phase
    part: StepPart
    is_function: bool
    ops: Integer
    first_order: Integer
    op_names: tuple[str, ...]
    parameters: tuple[ScopeParameter, ...]
    elements: Integer
    inputs: tuple[ScopeTensor, ...]
    outputs: tuple[ScopeTensor, ...]
    hits: Integer
    defined: SourceLine | None
    called: SourceLine | None


class BoxValue(Plain, frozen=True):
    """The largest value of a statistic inside a box of the graph."""

    path: str
    value: Number


class LevelValues(Plain, frozen=True):
    """A statistic of each box of a level that has one. ``least`` and ``most``: of the finite values
    in the whole graph; ``known``: how many ops have a value."""

    statistic: str
    step: Integer | None
    boxes: tuple[BoxValue, ...]
    least: Number
    most: Number
    known: Integer


class FoundScope(Plain, frozen=True):
    path: str
    label: str
    ops: Integer


class ScopeList(Plain, frozen=True):
    """The scopes that match; ``total`` counts all of them."""

    total: Integer
    scopes: tuple[FoundScope, ...]


class ListedNode(Plain, frozen=True):
    name: str
    type: str
    scope: str
    phase: Phase
    kind: NodeKind
    order: Integer
    categories: tuple[Category, ...]
    hits: Integer
    source: SourceLine | None


class NodePage(Plain, frozen=True):
    """A page of the ops that match; ``total`` counts all that match."""

    total: Integer
    offset: Integer
    nodes: tuple[ListedNode, ...]


class TreeEntry(Plain, frozen=True):
    """One line of the scope tree: a scope (``path`` ends with ``/``) or a node."""

    path: str
    label: str
    is_scope: bool
    type: str
    kind: NodeKind
    ops: Integer
    hits: Integer


class TreePage(Plain, frozen=True):
    scope: str
    total: Integer
    offset: Integer
    entries: tuple[TreeEntry, ...]


class SourceUse(Plain, frozen=True):
    """A line of the user's code and how many ops it ran."""

    file: str
    line: Integer
    code: str
    ops: Integer


class SourceList(Plain, frozen=True):
    total: Integer
    lines: tuple[SourceUse, ...]


class CodeText(Plain, frozen=True):
    """Lines of a source file that an op of the run names, from ``first`` on."""

    file: str
    first: Integer
    lines: tuple[str, ...]


class OpView(Plain, frozen=True):
    """Everything about one node except its tensors; ``consumers`` by output slot. ``hits``: their
    number, without undecided results. ``shown_in``: the scope that contains it in the views "model"
    and "step", which do not draw it if ``is_folded``; otherwise its inputs and ``consumers`` are in
    these views the nodes that they draw."""

    node: Node
    graph: Integer
    consumers: tuple[tuple[Integer, str], ...]
    hits: Integer
    shown_in: str = ""
    is_folded: bool = False
