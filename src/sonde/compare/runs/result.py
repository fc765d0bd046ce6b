"""The result of a comparison of two runs, as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sonde.core.finding import Finding
from sonde.core.graph import Phase, Source
from sonde.core.keys import Io
from sonde.kernels.distances import Distances

Verdict = Literal["aligned", "diverged", "incomparable"]
How = Literal["name", "map", "value", "flow", "use", "order", "update", "place", "gradient"]
"""Why two ops are paired: by name, by the map, by equal values, by where their inputs come from,
by the ops that read them, by their order; ``update``: both compute the last value of a parameter;
``place``: one of them has no counterpart, and the other is in its place; ``gradient``: the
optimizers read their results as the gradient of one parameter."""
Status = Literal[
    "equal", "within", "rounding", "inherited", "diverged", "incomparable", "not dumped"
]
"""``within``: less than the op's own rounding; ``rounding``: explained by the inputs' rounding;
``inherited``: explained by an earlier divergence; ``diverged``: explained by nothing."""
UnpairedRole = Literal["op", "leaf", "trivial"]
"""``trivial``: the op computes nothing, it only passes values on or reserves memory."""


@dataclass(frozen=True, slots=True)
class ComparedTensor:
    """One tensor of one side; ``parameter`` is the name of the parameter whose value it is."""

    op: str
    io: Io
    slot: int
    dtype: str
    shape: tuple[int, ...]
    parameter: str | None = None

    def __str__(self) -> str:
        return self.parameter or f"{self.op}:{self.io}.{self.slot}"


@dataclass(frozen=True, slots=True)
class TensorPair:
    """Two tensors that should be equal, and how they differ.

    ``error`` is the relative L2 distance, |a - b| / |b|: inf if NaN or Inf disagree or only b is
    zero; NaN if the tensors could not be compared for the reason ``problem``. By statistics
    (``by``) it is the largest relative difference of norm, extremes and mean; there are no
    distances. ``layout`` is the transformation of a to the layout of b. ``problem_kind``: the
    shapes differ, a file is damaged, or something else prevents a comparison.
    """

    a: ComparedTensor
    b: ComparedTensor
    error: float
    distances: Distances | None
    by: Literal["values", "statistics"]
    layout: str | None = None
    problem: str | None = None
    problem_kind: Literal["shapes", "damaged", "other"] | None = None


@dataclass(frozen=True, slots=True)
class RankFault:
    """Which ranks of a merged run differ from the other run: those whose parts do; empty if no
    single ranks do. ``text`` says what they did, if that is known, ``source`` where, in the script
    of ``side``."""

    ranks: tuple[int, ...]
    rule: Literal["gradient", "missing-on-rank", ""] = ""
    text: str = ""
    source: Source | None = None
    side: Literal["a", "b"] = "a"


@dataclass(frozen=True, slots=True)
class OpPair:
    """Two ops, or small groups of ops, that compute the same; ``a`` and ``b`` name the last ops.

    ``allowed`` is the error that the op may have, given the errors of its inputs (``input_error``
    is the largest); ``tolerance`` the error that it may add on its own. ``reads`` are the orders
    of the pairs that its inputs come from. ``fault``: where ranks were merged and the pair has
    diverged, what is known about them.
    """

    step: int
    rank: int
    order: int
    a: str
    b: str
    type_a: str
    type_b: str
    kind: str
    phase: Phase
    scope: str
    how: How
    members_a: tuple[str, ...]
    members_b: tuple[str, ...]
    source_a: Source | None
    source_b: Source | None
    tensors: tuple[TensorPair, ...]
    status: Status
    error: float
    input_error: float
    tolerance: float
    allowed: float
    notes: tuple[str, ...] = ()
    reads: tuple[int, ...] = ()
    fault: RankFault | None = None

    @property
    def ranks(self) -> tuple[int, ...]:
        return () if self.fault is None else self.fault.ranks

    @property
    def source(self) -> Source | None:
        """The line to look at: that of a, or of b if ranks of b did something unlike others."""
        return self.source_b if self.fault is not None and self.fault.side == "b" else self.source_a

    @property
    def is_leaf(self) -> bool:
        """Whether this is a parameter, an input or a constant, not an op."""
        return self.kind in ("parameter", "input", "constant")


@dataclass(frozen=True, slots=True)
class Unpaired:
    """An op of one side without a counterpart."""

    step: int
    rank: int
    side: Literal["a", "b"]
    name: str
    type: str
    phase: Phase
    source: Source | None
    reason: str
    role: UnpairedRole


@dataclass(frozen=True, slots=True)
class DivergenceStart:
    """The first pair whose output differs although its inputs agree.

    ``tensor`` is the tensor with the largest error, ``inheritors`` the number of later pairs that
    inherit the difference.
    """

    pair: OpPair
    tensor: TensorPair
    finding: Finding
    inheritors: int

    @property
    def cause(self) -> str:
        return self.finding.message

    @property
    def confidence(self) -> Literal["high", "low"]:
        return "low" if self.finding.status == "hypothesis" else "high"


@dataclass(frozen=True, slots=True)
class LossPair:
    """The losses of one step and whether they agree; None if a side has no loss."""

    step: int
    rank: int
    a: float | None
    b: float | None
    agrees: bool | None
    op_a: str | None = None
    op_b: str | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """A subnet or a layer, with the error and status of its worst pair."""

    step: int
    name: str
    level: Literal["subnet", "layer"]
    pairs: int
    error: float
    status: Status


@dataclass(frozen=True, slots=True)
class Growth:
    """How rounding grew along the forward pass: the error near its start, at its end, and the
    factor per op between them."""

    step: int
    first: float
    last: float
    per_op: float


@dataclass(frozen=True, slots=True)
class SideSummary:
    path: str
    writer: str | None
    ops: int
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RunComparison:
    """The whole result. ``reasons`` are sentences, from losses and subnets down to the op.
    ``mixed``: one side computes in lower precision throughout."""

    verdict: Verdict
    a: SideSummary
    b: SideSummary
    steps: tuple[int, ...]
    pairs: tuple[OpPair, ...]
    unpaired: tuple[Unpaired, ...]
    losses: tuple[LossPair, ...]
    parts: tuple[Part, ...]
    first_divergence: DivergenceStart | None = None
    growth: tuple[Growth, ...] = ()
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    by: Literal["values", "statistics", "both"] = "values"
    mixed: bool = False
