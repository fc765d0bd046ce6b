"""What both sides of the server speak about: ops, tensors, watchpoints, hits.

All are frozen and plain; they go to the browser as JSON and between processes as MessagePack.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from sonde.wire.numbers import Number

Io = Literal["input", "output"]
Phase = Literal["forward", "backward", "optimizer"]
NodeKind = Literal["op", "parameter", "input", "constant"]
Category = Literal["weight", "gradient", "activation", "tensor"]
State = Literal["waiting", "running", "paused", "ended", "lost"]
PauseReason = Literal["start", "pause", "step", "op", "hit", "breakpoint"]
Verdict = Literal["hit", "undecided"]
Part = Literal["producer", "carrier", "other"]
EvidenceStatus = Literal["established", "supported", "hypothesis"]


class Plain(msgspec.Struct, frozen=True, omit_defaults=False, gc=False):
    """The parent of every wire type. Without cycles, so that the garbage collector need not walk
    through a hundred thousand nodes again and again."""


class SourceLine(Plain, frozen=True):
    file: str
    line: int
    function: str
    code: str


class TensorType(Plain, frozen=True):
    dtype: str
    shape: tuple[int, ...]


class InputEdge(Plain, frozen=True):
    """Where an input comes from; ``producer`` is a full op name or None."""

    producer: str | None
    slot: int
    type: TensorType


class Node(Plain, frozen=True):
    """One op or leaf of a graph; ``order`` is its place in the execution, leaves included.

    ``categories``: what watch conditions may aim at it as (every node is a "tensor").
    """

    name: str
    type: str
    scope: str
    phase: Phase
    kind: NodeKind
    order: int
    inputs: tuple[InputEdge, ...] = ()
    outputs: tuple[TensorType, ...] = ()
    attributes: tuple[tuple[str, str], ...] = ()
    sources: tuple[SourceLine, ...] = ()
    categories: tuple[Category, ...] = ("tensor",)


class TensorName(Plain, frozen=True):
    """One tensor of a rank; ``step`` None means the latest there is."""

    op: str
    io: Io = "output"
    slot: int = 0
    step: int | None = None


class StatisticNumbers(Plain, frozen=True):
    """``core.statistics.Statistics`` on the wire. None: not known, because a dump has only some of
    the numbers; where such a dump has no counts of NaN and Inf, 1 stands for "some"."""

    count: int
    nan_count: int
    positive_inf_count: int
    negative_inf_count: int
    zero_count: int | None
    negative_count: int | None
    positive_count: int | None
    max: Number | None
    min: Number | None
    finite_max: Number | None
    finite_min: Number | None
    avg: Number | None
    l2norm: Number | None
    std: Number | None
    abs_mean: Number | None


class ConditionSpec(Plain, frozen=True):
    """A condition by its id and the parameters that are set; an expression has ``expression``."""

    id: str
    parameters: dict[str, float] = {}
    expression: str = ""


class WatchpointSpec(Plain, frozen=True):
    """What to look at, what to ask of it, and when to stop.

    ``ops``: patterns as ``kernels`` takes them, or a scope that ends with ``/``; empty: every
    tensor the conditions aim at. ``!`` before one leaves out what it names; the last that names an
    op decides, and if the first leaves out, all others are looked at. ``join``: whether one
    condition suffices ("any") or all must hold. Training stops at every ``break_after``-th hit; 0:
    never, hits are only listed.
    """

    id: int
    name: str
    conditions: tuple[ConditionSpec, ...]
    ops: tuple[str, ...] = ()
    join: Literal["any", "all"] = "any"
    enabled: bool = True
    break_after: int = 1
    ranks: tuple[int, ...] = ()


class ParameterValue(Plain, frozen=True):
    """One parameter of a condition: what was asked (``preset``) and what was found."""

    name: str
    preset: Number | None
    actual: Number | None


class Hit(Plain, frozen=True):
    """A tensor on which a watchpoint was met. The verdict "undecided" never pauses a training;
    ``why`` gives the reason.

    ``part``: whether the op produced the non-finite values from finite ones, or passed them on.
    ``origin`` is the op that produced them, ``chain`` the ops from there to this one, both
    included. ``number`` counts the hits of a rank, from 0. ``status``: how certain the hit is.
    """

    number: int
    watchpoint: int
    condition: str
    rank: int
    step: int
    order: int
    op: str
    io: Io
    slot: int
    type: TensorType
    verdict: Verdict
    why: str
    values: tuple[ParameterValue, ...]
    part: Part = "other"
    origin: str | None = None
    chain: tuple[str, ...] = ()
    source: SourceLine | None = None
    count: int = 1
    status: EvidenceStatus = "supported"


class HitRef(Plain, frozen=True):
    """The hit at which a training stopped: its watchpoint (with its name at that time), the
    condition that was met, and the tensor."""

    watchpoint: int
    name: str
    condition: str
    step: int
    op: str
    io: Io
    slot: int


class Metadata(Plain, frozen=True):
    """What is known of a training process. ``extra`` is shown as it is."""

    host: str
    pid: int
    rank: int
    world_size: int
    device: str
    framework: str
    framework_version: str
    sonde_version: str
    python_version: str
    script: str
    arguments: tuple[str, ...]
    working_directory: str
    started: float
    extra: dict[str, str] = {}


class LossPoint(Plain, frozen=True):
    """A step that is over. ``seconds``: how long it took, pauses left out. ``bare_seconds``: how
    long it took without what Sonde did after it, for a step whose ops and gradients were not
    observed; None for any other step, of which that is not known. ``observed``: its ops were.
    ``optimizer``: whose step it was, such as ``Adam of Generator``; empty if it was none's."""

    step: int
    loss: Number | None
    seconds: float
    bare_seconds: float | None
    observed: bool
    optimizer: str = ""
