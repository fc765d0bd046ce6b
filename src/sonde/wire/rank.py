"""Messages between a training process (a rank) and the server, as MessagePack in frames.

A frame is four bytes, the length in big-endian order, and one message. The rank speaks first:
``Hello``, answered by ``Welcome`` or ``Refused``. Everything the server sends after that may come
at any time; everything with a ``request`` is answered by exactly one ``Answer``.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from sonde.wire.shapes import (
    Hit,
    LossPoint,
    Metadata,
    Node,
    PauseReason,
    Plain,
    State,
    TensorName,
    WatchpointSpec,
)

PROTOCOL: Final = 1
MOST_BYTES: Final = 64 * 1024 * 1024
GRAPH_PART_NODES: Final = 2000
CHUNK_BYTES: Final = 4 * 1024 * 1024

Command = Literal["continue", "pause", "step", "next", "to", "terminate"]


class Tagged(Plain, frozen=True, tag_field="kind"):
    """The parent of the messages."""


# ------------------------------------------------------------------ from the rank


class Hello(Tagged, frozen=True, tag="hello"):
    """``run`` is the same for all ranks of one training. ``resumes``: connected before; then
    ``watchpoints`` are those it has and ``generation`` is of the last control it obeyed, so that a
    server that was started again learns them."""

    protocol: int
    token: str
    run: str
    metadata: Metadata
    resumes: bool
    watchpoints: tuple[WatchpointSpec, ...] = ()
    generation: int = 0


class GraphPart(Tagged, frozen=True, tag="graph"):
    """Nodes of graph ``graph`` from ``first`` on. ``total`` is None while the first step of a
    structure still runs; the graph is whole when ``first + len(nodes) == total``."""

    graph: int
    name: str
    first: int
    nodes: tuple[Node, ...]
    total: int | None


class Status(Tagged, frozen=True, tag="status"):
    """Where the training is. ``generation``: of the last control message that was obeyed."""

    state: State
    step: int
    graph: int | None
    op: str | None
    order: int | None
    reason: PauseReason | None
    message: str
    generation: int


class StepDone(Tagged, frozen=True, tag="step"):
    point: LossPoint
    graph: int | None


class Hits(Tagged, frozen=True, tag="hits"):
    hits: tuple[Hit, ...]


class Notice(Tagged, frozen=True, tag="notice"):
    """A line for the person at the page (a budget that is exceeded, say)."""

    slug: str
    text: str


class Answer(Tagged, frozen=True, tag="answer"):
    """``body`` is MessagePack of what the question asks for (``wire.questions``), or ``error`` a
    sentence. ``more``: further answers with the same ``request`` follow (a download)."""

    request: int
    body: bytes = b""
    error: str = ""
    slug: str = ""
    more: bool = False


class Goodbye(Tagged, frozen=True, tag="goodbye"):
    """The program ends: its exit code and, if an exception ended it, its last line."""

    exit_code: int
    error: str


# ------------------------------------------------------------------ from the server


class Welcome(Tagged, frozen=True, tag="welcome"):
    """``paused``: wait before the first step. ``generation``: of the server's last control.
    ``step`` and ``hit``: the last ones the server has of this rank, -1 for none. A rank that was
    connected before sends what came later, and its graphs: those it has already do no harm."""

    watchpoints: tuple[WatchpointSpec, ...]
    paused: bool
    generation: int
    step: int = -1
    hit: int = -1


class Refused(Tagged, frozen=True, tag="refused"):
    reason: str


class Control(Tagged, frozen=True, tag="control"):
    """``steps`` for "step"; ``op`` for "to": a full name, or the start of one."""

    generation: int
    command: Command
    steps: int = 1
    op: str = ""


class SetWatchpoints(Tagged, frozen=True, tag="watchpoints"):
    """All of them; what is not listed is gone."""

    watchpoints: tuple[WatchpointSpec, ...]


class Keep(Tagged, frozen=True, tag="keep"):
    """Keep the values of these tensors for ``steps`` steps each, all ops matching the patterns."""

    ops: tuple[str, ...]
    steps: int


class Ask(Tagged, frozen=True, tag="ask"):
    """A question about one tensor (``wire.questions``) or about a node's tensors."""

    request: int
    tensor: TensorName
    question: bytes


FromRank = Hello | GraphPart | Status | StepDone | Hits | Notice | Answer | Goodbye
FromServer = Welcome | Refused | Control | SetWatchpoints | Keep | Ask

encoder: Final = msgspec.msgpack.Encoder()
from_rank: Final = msgspec.msgpack.Decoder(FromRank)
from_server: Final = msgspec.msgpack.Decoder(FromServer)
