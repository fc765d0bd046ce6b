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
    DiagnosisView,
    GraphBasis,
    Hit,
    HitRef,
    Io,
    KeptOp,
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
    TracebackFrame,
    WatchpointSpec,
)

RunKind = Literal["live", "dump"]
StepPart = Literal[
    "network", "data", "loss", "gradients", "backward", "recomputed", "optimizer", "other", ""
]
HeadlineKind = Literal["hit", "loss", "crash", "overflow", "divergence", "finding", "lost"]
HitPhase = Literal["forward", "backward", "optimizer", "weights"]


class GraphInfo(Plain, frozen=True):
    """``optimizer``: the one whose step ran the graph last; empty if unknown. ``basis``: where the
    nodes are known from, see ``rank.GraphPart``. ``nodes`` 0: not known yet. ``steps``: the first
    and last of consecutive steps that ran it, the newest ones if there are many. ``like``: for a
    graph that is still growing, the whole graph that has nearly all of its ops. ``here``: the place
    of the rank's current op in it. ``difference``: what it has that the usual graph has not, or the
    other way round; empty for the usual graph, and if it is not known."""

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


class RankView(Plain, frozen=True):
    """One rank of a run as the header of the page shows it.

    ``seconds``: the median duration of recent steps; None before the first step has ended.
    ``bare_seconds``: the median duration of the latest steps that were not observed; None if every
    step was observed. Both exclude pauses. ``is_measuring``: one coming step is to run unobserved,
    as the user asked, and has not ended yet. ``hit``: the hit at which the training is paused.
    ``exit_code``, ``error`` (the last line of the exception) and ``is_terminated`` (by the
    debugger) are set when the program has ended. ``message`` is text to show. ``is_answering``: the
    process answers heartbeats. ``address``: of the training process, IP address and port; empty for
    a dump. ``frames``: the traceback of a program that failed, outermost first. ``waits_for``: the
    ranks that are paused, while this one runs and has made no progress since. ``kept``: the values
    that are kept on request; ``recorded``: the ops whose statistics are recorded in every step, on
    request. ``recording``: the number of ops of the running step so far, while the first graph is
    recorded; else None.
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
    frames: tuple[TracebackFrame, ...] = ()
    waits_for: tuple[Integer, ...] = ()
    kept: tuple[KeptOp, ...] = ()
    recorded: tuple[str, ...] = ()
    recording: Integer | None = None


class RunHeadline(Plain, frozen=True):
    """What is wrong with a run: ``title`` in a few words; ``text`` is the whole sentence, begins
    with it, and has code between backticks. ``op``, ``io``, ``slot``, ``step`` and ``rank``: the
    tensor that shows it, an empty ``op`` if there is none. ``others``: how many got it from there.
    ``advice``: what to do."""

    kind: HeadlineKind
    severity: Literal["error", "warning"]
    title: str
    text: str
    advice: str = ""
    rank: Integer | None = None
    step: Integer | None = None
    op: str = ""
    io: Io = "output"
    slot: Integer = 0
    source: SourceLine | None = None
    others: Integer = 0


class RecheckView(Plain, frozen=True):
    """Progress of a check of the watchpoints on all tensors of a dump, or the result of a check on
    the tensors that a training has now: ``done`` of ``total`` tensors were evaluated; ``notes`` say
    which were not, and why. ``seconds_left``: an estimate while a check runs."""

    running: bool
    done: Integer
    total: Integer
    hits: Integer
    notes: tuple[str, ...] = ()
    seconds_left: float | None = None


class WatchpointWarning(Plain, frozen=True):
    """Text to show about watchpoint ``id``: its patterns match nothing in the ops seen so far."""

    id: Integer
    text: str


class RunView(Plain, frozen=True):
    """``revision`` grows with every change of the other fields; ``controls`` are the commands that
    are possible (for a dump only those of ``recheck``). ``peer``: the second dump of a view.
    ``unobserved``: what was not observed of the run, so that no hits there mean nothing.
    ``warnings``: about watchpoints whose patterns match nothing. ``headline``: what is wrong, if
    anything is. ``diagnosis``: None if the training was not diagnosed."""

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
    warnings: tuple[WatchpointWarning, ...] = ()
    headline: RunHeadline | None = None
    diagnosis: DiagnosisView | None = None


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


class FindingPlace(Plain, frozen=True):
    """Where a graph has what the finding ``kind`` names: ops and parameters by their full names,
    scopes with a ``/`` at the end; empty if the graph has none of it."""

    kind: str
    paths: tuple[str, ...]


class FindingPlaces(Plain, frozen=True):
    places: tuple[FindingPlace, ...]


class RulePage(Plain, frozen=True):
    """The documentation of a rule as Markdown: the text of its page in ``docs/rules``."""

    kind: str
    text: str


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
    """Everything about one node except its tensors; ``consumers`` by output slot. ``shown_in``: the
    scope that contains it in the views "model" and "step", which do not draw it if
    ``is_folded``."""

    node: Node
    graph: Integer
    consumers: tuple[tuple[Integer, str], ...]
    hits: tuple[Hit, ...]
    shown_in: str = ""
    is_folded: bool = False


class HitPage(Plain, frozen=True):
    """In execution order: step, then place in the step, inputs and parameters first. ``dropped``:
    further ones of the rank, or of all, that were not kept, because there were so many."""

    total: Integer
    offset: Integer
    hits: tuple[Hit, ...]
    dropped: Integer = 0


class CausePhase(Plain, frozen=True):
    """The tensors of a cause in one phase: how many, and how many hits they have."""

    phase: HitPhase
    tensors: Integer
    hits: Integer


class CauseView(Plain, frozen=True):
    """Hits of one cause: those whose NaN and Inf come from the op ``origin``; without an origin,
    those of one condition. ``first``: the hit of the op that produced them, or the first.
    ``others``: how many other ops or tensors have hits of this cause."""

    rank: Integer
    origin: str
    watchpoint: Integer
    condition: str
    first: Hit
    hits: Integer
    others: Integer
    phases: tuple[CausePhase, ...]


class CauseList(Plain, frozen=True):
    """Causes of NaN and Inf first, the earliest first. ``undecided``: results that could not be
    decided, which have no cause."""

    total: Integer
    causes: tuple[CauseView, ...]
    undecided: Integer


class LossCurve(Plain, frozen=True):
    rank: Integer
    points: tuple[LossPoint, ...]


class StatisticPoint(Plain, frozen=True):
    """``update_ratio``: of a weight, the norm of its update in the step by its norm before."""

    step: Integer
    statistics: StatisticNumbers
    update_ratio: Number | None = None


class StatisticCurve(Plain, frozen=True):
    """Statistics of one tensor in all known steps. ``is_recorded``: those of every coming step are
    recorded, too."""

    op: str
    io: Io
    slot: Integer
    type: TensorType
    points: tuple[StatisticPoint, ...]
    is_recorded: bool = False


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


class PresetInfo(Plain, frozen=True):
    """A set of watchpoints for one purpose. ``finds`` completes "watches for"; ``names`` are those
    of its watchpoints; ``cost``: how many times longer a step takes, as a text."""

    id: str
    title: str
    finds: str
    names: tuple[str, ...]
    cost: str


class Catalogue(Plain, frozen=True):
    """Every watch condition, the names that an expression may use, and the presets."""

    conditions: tuple[ConditionInfo, ...]
    expression_names: tuple[str, ...]
    presets: tuple[PresetInfo, ...]


class Preview(Plain, frozen=True):
    """What a watchpoint would have hit in step ``step``: ``hits`` of the ``judged`` tensors that it
    applies to, ``examples`` names some. ``undecided``: of how many others that cannot be told from
    statistics alone; they are not in ``judged``. ``step`` None: nothing has been recorded yet."""

    step: Integer | None
    judged: Integer
    hits: Integer
    undecided: Integer
    examples: tuple[str, ...] = ()


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
    warnings: tuple[WatchpointWarning, ...] = ()


class WatchpointFile(Plain, frozen=True):
    """A saved set of watchpoints."""

    watchpoints: tuple[WatchpointDraft, ...]
    version: Literal[1] = 1


class KeepRequest(Plain, frozen=True):
    """Keep the values of the ops that match the patterns, ``steps`` steps back; 0: no longer."""

    ops: tuple[str, ...]
    steps: Integer = 2
    rank: Integer | None = None


class RecordRequest(Plain, frozen=True):
    """Record the statistics of the op, or of the one that makes its input ``slot``, in every step
    from now on; ``is_on`` False: no longer."""

    op: str
    io: Io = "output"
    slot: Integer = 0
    is_on: bool = True
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
