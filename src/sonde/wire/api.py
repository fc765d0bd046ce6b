"""The server's JSON answers to the browser and to ``sonde ctl``; ``docs/wire.md`` lists the routes.

The TypeScript types of the page are generated from these.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from sonde.wire.graphs import GraphInfo
from sonde.wire.numbers import Integer, Number
from sonde.wire.rank import Command
from sonde.wire.shapes import (
    DiagnosisView,
    FailedCall,
    Hit,
    HitRef,
    Io,
    KeptOp,
    LossPoint,
    Metadata,
    PauseReason,
    Plain,
    SourceLine,
    State,
    StatisticNumbers,
    TensorType,
    TracebackFrame,
    WatchpointSpec,
)
from sonde.wire.watchpoints import WatchpointWarning

Name = Annotated[str, msgspec.Meta(max_length=10_000)]
"""The name of an op, or a pattern, in a request."""
RunKind = Literal["live", "dump"]
HeadlineKind = Literal["hit", "loss", "crash", "overflow", "divergence", "finding", "lost"]
HitPhase = Literal["forward", "backward", "optimizer", "weights"]


class RankView(Plain, frozen=True):
    """One rank of a run as the header of the page shows it.

    ``seconds``: the median duration of recent steps; None before the first step has ended.
    ``bare_seconds``: the median duration of the latest steps that were not observed; None if every
    step was observed. Both exclude pauses. ``is_measuring``: one coming step is to run unobserved,
    as the user asked, and has not ended yet. ``hit``: the hit at which the training is paused.
    ``exit_code``, ``error`` (the last line of the exception) and ``is_terminated`` (by the
    debugger) are set when the program has ended. ``message`` is text to show. ``is_answering``: the
    process answers heartbeats. ``address``: of the training process, IP address and port; empty for
    a dump. ``frames``: the traceback of a program that failed, outermost first; ``failed``: the
    call that raised the error. ``waits_for``: the
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
    failed: FailedCall | None = None
    waits_for: tuple[Integer, ...] = ()
    kept: tuple[KeptOp, ...] = ()
    recorded: tuple[str, ...] = ()
    recording: Integer | None = None


class RunHeadline(Plain, frozen=True):
    """What is wrong with a run: ``title`` in a few words; ``text`` is the whole sentence, begins
    with it, and has code between backticks. ``op``, ``io``, ``slot``, ``step`` and ``rank``: the
    tensor that shows it, an empty ``op`` if there is none. ``others``: how many got it from there.
    ``advice``: what to do. ``command``: runs the program again to find the op that made NaN or Inf,
    where that is not known; else empty."""

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
    command: str = ""


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


class RunView(Plain, frozen=True):
    """``revision`` grows with every change of the other fields; ``controls`` are the commands that
    are possible (for a dump only those of ``recheck``). ``peer``: the second dump of a view.
    ``unobserved``: what was not observed of the run, so that no hits there mean nothing.
    ``warnings``: about watchpoints whose patterns match nothing. ``headline``: what is wrong, if
    anything is. ``diagnosis``: None if the training was not diagnosed. ``opens_with_health``: its
    first screen is its health: it has several steps of which signals are known, and no pause."""

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
    opens_with_health: bool = False


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
    op: Name = ""
    rank: Integer | None = None
    wait_seconds: float = 0.0


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
    ``others``: how many other tensors have hits of this cause."""

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
    decided, which have no cause; ``harmless``: tensors with NaN or Inf that are no fault."""

    total: Integer
    causes: tuple[CauseView, ...]
    undecided: Integer
    harmless: Integer = 0


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


class KeepRequest(Plain, frozen=True):
    """Keep the values of the ops that match the patterns, ``steps`` steps back; 0: no longer."""

    ops: Annotated[tuple[Name, ...], msgspec.Meta(max_length=20_000)]
    steps: Integer = 2
    rank: Integer | None = None


class RecordRequest(Plain, frozen=True):
    """Record the statistics of the op, or of the one that makes its input ``slot``, in every step
    from now on; ``is_on`` False: no longer."""

    op: Name
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
