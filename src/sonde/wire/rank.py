"""Messages between a training process (a rank) and the server, as MessagePack in frames.

A frame is four bytes, the length in big-endian order, and one message. The rank sends the
first: ``Hello``, answered by ``Welcome`` or ``Refused``. After that the server may send at any
time; a message with a ``request`` is answered by an ``Answer``, or by several for a file.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from sonde.wire.numbers import Integer, Natural
from sonde.wire.shapes import (
    DiagnosisView,
    FailedCall,
    GraphBasis,
    Hit,
    HitRef,
    KeptOp,
    LossPoint,
    Metadata,
    Node,
    PauseReason,
    Plain,
    State,
    TensorName,
    TracebackFrame,
    WatchpointSpec,
)

PROTOCOL: Final = 2
MOST_BYTES: Final = 64 * 1024 * 1024
GRAPH_PART_NODES: Final = 2000
CHUNK_BYTES: Final = 4 * 1024 * 1024
HEARTBEAT_SECONDS: Final = 2.0
MISSED_HEARTBEATS: Final = 5
"""Heartbeats without a sign of the other side after which it counts as not answering."""

Command = Literal["continue", "pause", "step", "next", "to", "terminate"]


class Tagged(Plain, frozen=True, tag_field="kind"):
    """Base of the messages; ``kind`` is the tag."""


# ------------------------------------------------------------------ from the rank


class Hello(Tagged, frozen=True, tag="hello"):
    """``run`` is the same for all ranks of one training. ``resumes``: it was connected before; then
    ``watchpoints`` are its current ones and ``generation`` is that of the last command it
    executed, for a server that was restarted. ``secret``: of the last ``Welcome``, which proves
    that the same process connects again; empty at first."""

    protocol: Integer
    token: str
    run: str
    metadata: Metadata
    resumes: bool
    watchpoints: tuple[WatchpointSpec, ...] = ()
    generation: Integer = 0
    secret: str = ""


class GraphPart(Tagged, frozen=True, tag="graph"):
    """Nodes of graph ``graph`` from ``first`` on. ``total`` is None while the first step with this
    graph still runs; the graph is complete when ``first + len(nodes) == total``.

    ``basis``: where the nodes are known from. Before the first step has run there are only the
    modules and parameters ("modules"), or the forward pass as it was traced without running it
    ("trace"); what runs replaces them ("run")."""

    graph: Integer
    name: str
    first: Integer
    nodes: tuple[Node, ...]
    total: Integer | None
    basis: GraphBasis = "run"


class Status(Tagged, frozen=True, tag="status"):
    """The state of the training. ``generation``: of the last command that was executed. ``message``
    is text to show; ``hit`` is set while the training is paused at a hit. The reason "missed": a
    whole step ran without the op that the training was to run to."""

    state: State
    step: Integer
    graph: Integer | None
    op: str | None
    order: Integer | None
    reason: PauseReason | None
    message: str
    generation: Integer
    hit: HitRef | None = None


class StepDone(Tagged, frozen=True, tag="step"):
    """``is_measurement``: the step was to run unobserved, as ``MeasureSpeed`` asked."""

    point: LossPoint
    graph: Integer | None
    is_measurement: bool = False


class ParameterNames(Tagged, frozen=True, tag="parameter_names"):
    """The weights that ``ParameterNorms`` are about, by column; all of them, whenever one is
    added."""

    names: tuple[str, ...]


class ParameterNorms(Tagged, frozen=True, tag="parameter_norms"):
    """The L2 norms of the gradients and weights that the optimizer of step ``step`` used, and the
    ratios of the updates (the norm of the change by that of the weight): float32 by column, in
    little-endian order, NaN where one is not known. Fewer than there are columns: the rest is not
    known. ``learning_rate``: of the optimizer, the largest of its groups; None if it has none."""

    step: Natural
    gradients: bytes
    weights: bytes
    updates: bytes
    learning_rate: float | None = None


class OpStatistics(Tagged, frozen=True, tag="op_statistics"):
    """Statistics of outputs of step ``step``: op ``ops[i]``, slot ``slots[i]``, and row ``i`` of
    ``rows``, each ``core.statistics.ROW_COLUMNS`` float64 in little-endian order."""

    step: Natural
    ops: tuple[str, ...]
    slots: tuple[Integer, ...]
    rows: bytes


class FirstStepProgress(Tagged, frozen=True, tag="progress"):
    """``ops`` ops of step ``step`` have run; sent while the first graph is recorded."""

    step: Integer
    ops: Integer


class Kept(Tagged, frozen=True, tag="kept"):
    """What the rank keeps on request: values of ops, and statistics of each step of the ops
    ``recorded``."""

    ops: tuple[KeptOp, ...]
    recorded: tuple[str, ...]


class Hits(Tagged, frozen=True, tag="hits"):
    hits: tuple[Hit, ...]


class Notice(Tagged, frozen=True, tag="notice"):
    """A line to show on the page (about an exceeded budget, for example). ``is_gap``: it says what
    is not observed of the training."""

    slug: str
    text: str
    is_gap: bool = False


class Diagnosed(Tagged, frozen=True, tag="diagnosed"):
    """The diagnosis of the training so far; it replaces the one that was sent before."""

    diagnosis: DiagnosisView


class Answer(Tagged, frozen=True, tag="answer"):
    """``body`` is the answer of ``wire.questions`` as MessagePack, or ``error`` a text. ``more``:
    further answers with the same ``request`` follow (a download)."""

    request: Integer
    body: bytes = b""
    error: str = ""
    slug: str = ""
    more: bool = False


class Goodbye(Tagged, frozen=True, tag="goodbye"):
    """The program ends: its exit code and, after an exception, the last line of the traceback.
    ``is_terminated``: it was ended on request of the debugger. ``frames``: the traceback, outermost
    first, without the frames of Sonde; ``failed``: the call in the innermost one."""

    exit_code: Integer
    error: str
    is_terminated: bool = False
    frames: tuple[TracebackFrame, ...] = ()
    failed: FailedCall | None = None


class Alive(Tagged, frozen=True, tag="alive"):
    """The answer to a ``Heartbeat``, sent by the thread of the connection: the process lives and
    its Python code runs, whatever the training does."""


class JobStart(Tagged, frozen=True, tag="job_start"):
    """The ranks of this run are to be compared. ``hang_seconds``: after how long without progress
    the server says where the ranks stand; 0: never."""

    hang_seconds: float


class RankReports(Tagged, frozen=True, tag="reports"):
    """Reports of ``ranks.report``, encoded there."""

    data: bytes


class JobEnd(Tagged, frozen=True, tag="job_end"):
    """The rank has sent its last report. The server answers the rank that prints the findings when
    all ranks have ended. ``error``: the class of the exception that ended the training, empty for
    none; ``text`` what it says, ``source`` the line of the program."""

    error: str = ""
    text: str = ""
    source: str = ""


# ------------------------------------------------------------------ from the server


class Welcome(Tagged, frozen=True, tag="welcome"):
    """``paused``: pause before the first step. ``generation``: of the server's last command.
    ``step`` and ``hit``: the last ones that the server has of this rank, -1 for none. After a
    reconnect the rank sends later ones and all its graphs; the server ignores known graphs.
    ``secret`` must be sent in the ``Hello`` after a reconnect. ``heartbeat_seconds``: how often the
    server sends a ``Heartbeat``; 0: never."""

    watchpoints: tuple[WatchpointSpec, ...]
    paused: bool
    generation: Integer
    step: Integer = -1
    hit: Integer = -1
    secret: str = ""
    heartbeat_seconds: float = 0.0


class Refused(Tagged, frozen=True, tag="refused"):
    reason: str


class ControlMessage(Tagged, frozen=True, tag="control"):
    """A command. ``steps`` for "step"; ``op`` for "to": the full name of an op, or a scope."""

    generation: Integer
    command: Command
    steps: Integer = 1
    op: str = ""


class SetWatchpoints(Tagged, frozen=True, tag="watchpoints"):
    """All watchpoints; they replace those that the rank has."""

    watchpoints: tuple[WatchpointSpec, ...]


class Keep(Tagged, frozen=True, tag="keep"):
    """Keep the values of the ops that match these patterns, of the last ``steps`` steps; 0: no
    longer."""

    ops: tuple[str, ...]
    steps: Integer


class Record(Tagged, frozen=True, tag="record"):
    """Record the statistics of the op in every step; ``is_on`` False: no longer."""

    op: str
    is_on: bool = True


class MeasureSpeed(Tagged, frozen=True, tag="measure_speed"):
    """Run one coming step unobserved, to measure how long a step takes without Sonde: step
    ``first`` or a later one. All ranks get the same, because they wait for each other."""

    first: Integer = 0


class Ask(Tagged, frozen=True, tag="ask"):
    """A question about one tensor (``wire.questions``) or about a node's tensors."""

    request: Integer
    tensor: TensorName
    question: bytes


class Heartbeat(Tagged, frozen=True, tag="heartbeat"):
    """Sent at regular intervals: a rank that gets none for ``MISSED_HEARTBEATS`` intervals takes
    the server for lost. Answered by ``Alive``."""


class JobFindings(Tagged, frozen=True, tag="job_findings"):
    """Findings over all ranks, as `ranks.finding_codec` encodes them; sent to the rank that prints
    them. ``is_last``: the job has ended; ``judged_steps``: how many steps were compared."""

    data: bytes
    is_last: bool
    judged_steps: Integer


class AskStack(Tagged, frozen=True, tag="ask_stack"):
    """Asks where the rank stands; answered by a report, from the thread of the connection."""


FromRank = (
    Hello
    | GraphPart
    | Status
    | StepDone
    | ParameterNames
    | ParameterNorms
    | OpStatistics
    | FirstStepProgress
    | Kept
    | Hits
    | Notice
    | Diagnosed
    | Answer
    | Goodbye
    | Alive
    | JobStart
    | RankReports
    | JobEnd
)
FromServer = (
    Welcome
    | Refused
    | ControlMessage
    | SetWatchpoints
    | Keep
    | Record
    | MeasureSpeed
    | Ask
    | Heartbeat
    | JobFindings
    | AskStack
)

encoder: Final = msgspec.msgpack.Encoder()
from_rank: Final = msgspec.msgpack.Decoder(FromRank)
from_server: Final = msgspec.msgpack.Decoder(FromServer)
