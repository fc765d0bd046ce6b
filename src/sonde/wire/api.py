"""The server's JSON answers to the browser and to ``sonde ctl``; ``docs/wire.md`` lists the routes.

The TypeScript types of the page are generated from these.
"""

from __future__ import annotations

from typing import Literal

from sonde.wire.numbers import Integer, Number
from sonde.wire.rank import Command
from sonde.wire.shapes import (
    Category,
    ConditionSpec,
    GraphBasis,
    Hit,
    HitRef,
    Io,
    LossPoint,
    Metadata,
    Node,
    NodeKind,
    PauseReason,
    Phase,
    Plain,
    SourceLine,
    State,
    StatisticNumbers,
    TensorType,
    WatchpointSpec,
)

RunKind = Literal["live", "dump"]


class GraphInfo(Plain, frozen=True):
    """``optimizer``: the one whose step ran the graph last; empty if unknown. ``basis``: where the
    nodes are known from, see ``rank.GraphPart``."""

    id: Integer
    name: str
    nodes: Integer
    whole: bool
    optimizer: str = ""
    basis: GraphBasis = "run"


class RankView(Plain, frozen=True):
    """One rank of a run as the header of the page shows it.

    ``seconds``: the median duration of recent steps; None before the first step has ended.
    ``bare_seconds``: the median duration of the latest steps that were not observed; None if every
    step was observed. Both exclude pauses. ``is_measuring``: one coming step is to run unobserved,
    as the user asked, and has not ended yet. ``hit``: the hit at which the training is paused.
    ``exit_code``, ``error`` (the last line of the exception) and ``is_terminated`` (by the
    debugger) are set when the program has ended. ``message`` is text to show. ``is_answering``: the
    process answers heartbeats. ``address``: of the training process, IP address and port; empty for
    a dump.
    """

    rank: Integer
    state: State
    step: Integer
    graph: Integer | None
    op: str | None
    order: Integer | None
    reason: PauseReason | None
    message: str
    hits: Integer
    graphs: tuple[GraphInfo, ...]
    steps: tuple[Integer, ...]
    metadata: Metadata | None
    seconds: float | None
    bare_seconds: float | None
    exit_code: Integer | None = None
    error: str = ""
    is_terminated: bool = False
    hit: HitRef | None = None
    is_measuring: bool = False
    is_answering: bool = True
    address: str = ""


class RecheckView(Plain, frozen=True):
    """Progress of a check of the watchpoints on all tensors of a dump, or the result of a check on
    the tensors that a training has now: ``done`` of ``total`` tensors were evaluated; ``notes`` say
    which were not, and why."""

    running: bool
    done: Integer
    total: Integer
    hits: Integer
    notes: tuple[str, ...] = ()


class RunView(Plain, frozen=True):
    """``revision`` grows with every change of the other fields; ``controls`` are the commands that
    are possible (for a dump only those of ``recheck``). ``peer``: the second dump of a view.
    ``unobserved``: what was not observed of the run, so that no hits there mean nothing."""

    id: str
    kind: RunKind
    title: str
    revision: Integer
    ranks: tuple[RankView, ...]
    watchpoints: tuple[WatchpointSpec, ...]
    controls: tuple[Command, ...]
    notices: tuple[str, ...]
    peer: str | None = None
    recheck: RecheckView | None = None
    unobserved: tuple[str, ...] = ()


class RunList(Plain, frozen=True):
    """``rank_port``: the port to which trainings connect; None if the server shows only dumps.
    ``fingerprint``: of the server's certificate, empty without TLS."""

    runs: tuple[RunView, ...]
    rank_port: Integer | None = None
    fingerprint: str = ""


class ControlRequest(Plain, frozen=True):
    """``rank`` None: all ranks. ``wait_seconds``: answer when the training pauses or ends again, at
    the latest after this time."""

    command: Command
    steps: Integer = 1
    op: str = ""
    rank: Integer | None = None
    wait_seconds: float = 0.0


class LevelNode(Plain, frozen=True):
    """One box of an expanded scope: an op, a leaf, a scope (with ``ops`` ops inside), or a group of
    ``stands_for`` similar ones drawn as one box (``members``: the paths of the first of them).

    ``path`` identifies the box: an op's full name, a scope that ends with ``/``, or for a group its
    scope, ``*`` and a word, which is the parameter ``group`` of the next request.
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
    """Everything about one node except its tensors; ``consumers`` by output slot."""

    node: Node
    graph: Integer
    consumers: tuple[tuple[Integer, str], ...]
    hits: tuple[Hit, ...]


class HitPage(Plain, frozen=True):
    """In execution order: step, then place in the step, inputs and parameters first. ``dropped``:
    further ones of the rank, or of all, that were not kept, because there were so many."""

    total: Integer
    offset: Integer
    hits: tuple[Hit, ...]
    dropped: Integer = 0


class LossCurve(Plain, frozen=True):
    rank: Integer
    points: tuple[LossPoint, ...]


class StatisticPoint(Plain, frozen=True):
    step: Integer
    statistics: StatisticNumbers


class StatisticCurve(Plain, frozen=True):
    """Statistics of one tensor in all known steps."""

    op: str
    io: Io
    slot: Integer
    type: TensorType
    points: tuple[StatisticPoint, ...]


class ParameterInfo(Plain, frozen=True):
    """One parameter of a condition; ``check``: measured values are compared with it."""

    name: str
    check: bool
    default: float | None
    lowest: Number
    highest: Number
    description: str


class ConditionInfo(Plain, frozen=True):
    id: str
    title: str
    abbreviation: str
    target: Category
    formula: str
    description: str
    advice: str
    parameters: tuple[ParameterInfo, ...]


class Catalogue(Plain, frozen=True):
    """Every watch condition, and the names that an expression may use."""

    conditions: tuple[ConditionInfo, ...]
    expression_names: tuple[str, ...]


class WatchpointDraft(Plain, frozen=True):
    """A watchpoint without an id: a new one, or the new content of an existing one."""

    name: str
    conditions: tuple[ConditionSpec, ...]
    ops: tuple[str, ...] = ()
    join: Literal["any", "all"] = "any"
    enabled: bool = True
    break_after: Integer = 1
    ranks: tuple[Integer, ...] = ()


class WatchpointAnswer(WatchpointSpec, frozen=True):
    """A watchpoint as it was set. ``warning``: text to show, such as that no op matches its
    patterns; else empty."""

    warning: str = ""


class WatchpointList(Plain, frozen=True):
    watchpoints: tuple[WatchpointSpec, ...]


class WatchpointFile(Plain, frozen=True):
    """A saved set of watchpoints."""

    watchpoints: tuple[WatchpointDraft, ...]
    version: Literal[1] = 1


class KeepRequest(Plain, frozen=True):
    """Keep the values of the ops that match the patterns, ``steps`` steps back."""

    ops: tuple[str, ...]
    steps: Integer = 2
    rank: Integer | None = None


class Problem(Plain, frozen=True):
    """The body of every answer that is not 2xx. ``slug`` is a heading of ``docs/messages.md``."""

    error: str
    slug: str


class Event(Plain, frozen=True):
    """One line of the event socket: run ``run`` changed; fetch what you show of ``topics``."""

    run: str
    revision: Integer
    topics: tuple[Literal["status", "graph", "hits", "watchpoints", "loss", "notices"], ...]
