"""The comparison of two dumps as the page shows it: verdict, pairs of ops, ops without a pair."""

from __future__ import annotations

from typing import Literal

import msgspec

from sonde.wire.numbers import Integer, Number
from sonde.wire.questions import DistanceNumbers
from sonde.wire.shapes import Io, Phase, Plain, SourceLine

ComparedVerdict = Literal["aligned", "diverged", "incomparable"]
PairStatus = Literal[
    "equal", "within", "rounding", "inherited", "diverged", "incomparable", "not dumped"
]
PairSort = Literal["order", "error"]
Side = Literal["a", "b"]


class PairedTensor(Plain, frozen=True):
    """One tensor of a pair; ``parameter``: the name of the parameter whose value it is."""

    op: str
    io: Io
    slot: Integer
    dtype: str
    shape: tuple[Integer, ...]
    parameter: str | None


class PairedTensors(Plain, frozen=True):
    """Two tensors that should be equal; ``problem`` says why they could not be compared."""

    a: PairedTensor
    b: PairedTensor
    error: Number
    distances: DistanceNumbers | None
    layout: str
    problem: str


class PairView(Plain, frozen=True):
    """Two ops that compute the same; ``number`` is the index among all pairs."""

    number: Integer
    step: Integer
    rank: Integer
    order: Integer
    a: str
    b: str
    type_a: str
    type_b: str
    kind: str
    phase: Phase
    how: str
    status: PairStatus
    error: Number
    input_error: Number
    allowed: Number
    members_a: tuple[str, ...]
    members_b: tuple[str, ...]
    source_a: SourceLine | None
    source_b: SourceLine | None
    tensors: tuple[PairedTensors, ...]
    notes: tuple[str, ...]


class PairPage(Plain, frozen=True):
    """A page of the pairs that match; ``total`` counts all that match."""

    total: Integer
    offset: Integer
    pairs: tuple[PairView, ...]


class UnpairedView(Plain, frozen=True):
    """An op of one side without a counterpart."""

    step: Integer
    rank: Integer
    side: Side
    op: str
    type: str
    phase: Phase
    source: SourceLine | None
    reason: str


class UnpairedPage(Plain, frozen=True):
    total: Integer
    offset: Integer
    unpaired: tuple[UnpairedView, ...]


class ComparedLoss(Plain, frozen=True):
    step: Integer
    rank: Integer
    a: Number | None
    b: Number | None
    agrees: bool | None


class FirstDivergence(Plain, frozen=True):
    """The first op whose outputs differ although its inputs agree. ``tensor``: the tensors of the
    pair that show it."""

    pair: PairView
    tensor: PairedTensors
    cause: str
    confidence: Literal["high", "low"]
    inheritors: Integer


class ComparisonView(Plain, frozen=True):
    """Progress and result of the comparison. ``a`` and ``b`` are the ids of the two runs, ``side``
    says which of them this run is; b is the reference. ``verdict`` is set when the comparison has
    ended, ``problem`` if it failed. ``counts``: pairs by status."""

    a: str
    b: str
    side: Side
    running: bool
    what: str
    done: Integer
    total: Integer
    problem: str = ""
    verdict: ComparedVerdict | None = None
    by: str = ""
    first: FirstDivergence | None = None
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    losses: tuple[ComparedLoss, ...] = ()
    counts: dict[str, Integer] = msgspec.field(default_factory=dict)
    pairs: Integer = 0
    unpaired_a: Integer = 0
    unpaired_b: Integer = 0


class LevelMark(Plain, frozen=True):
    """How a box of the graph compares: the worst status inside it; ``first``: the first divergence
    is inside it. ``status`` None: nothing inside it has a counterpart."""

    path: str
    status: PairStatus | None
    first: bool


class LevelMarks(Plain, frozen=True):
    marks: tuple[LevelMark, ...]
