"""What a comparison finds: values only, nothing of files or terminals."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sonde.core.graph import Phase, Source
from sonde.core.keys import Io
from sonde.kernels.distances import Distances

Verdict = Literal["aligned", "diverged", "incomparable"]
How = Literal["name", "map", "value", "flow", "use", "order", "update", "place"]
"""Why two ops are paired: by name, by the map, by equal values, by where their inputs come from,
by what reads them, by their order; ``update``: both make the last value of one parameter;
``place``: one stands where the other, which has no counterpart, is missing."""
Status = Literal[
    "equal", "within", "rounding", "inherited", "diverged", "incomparable", "not dumped"
]
"""``within``: less than the op's own rounding; ``rounding``: explained by the inputs' rounding;
``inherited``: explained by a divergence before; ``diverged``: explained by nothing before it."""


@dataclass(frozen=True, slots=True)
class ComparedTensor:
    """One tensor of one side; ``parameter`` names it where it is a parameter's value."""

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

    ``error`` is the relative L2 distance, |a - b| / |b|: inf where NaN or Inf disagree or only b
    is zero; NaN where the tensors could not be compared, then ``problem`` says why. By statistics
    (``by``) it is the largest relative difference of norm, extremes and mean; there are no
    distances. ``layout`` says how a was turned to lie as b does. ``is_damaged``: a file cannot be
    read.
    """

    a: ComparedTensor
    b: ComparedTensor
    error: float
    distances: Distances | None
    by: Literal["values", "statistics"]
    layout: str | None = None
    problem: str | None = None
    is_damaged: bool = False


@dataclass(frozen=True, slots=True)
class OpPair:
    """Two ops, or small groups of ops, that compute the same; the names are of the last op.

    ``allowed`` is the error the op may have, given the errors of its inputs (``input_error`` is
    the largest); ``tolerance`` the one it may have on its own. ``reads`` are the orders of the
    pairs its inputs come from.
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

    @property
    def is_leaf(self) -> bool:
        """Whether this is something the step begins with, not an op."""
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


@dataclass(frozen=True, slots=True)
class DivergenceStart:
    """The first op whose output differs though what it read agrees."""

    pair: OpPair
    tensor: TensorPair
    cause: str
    inheritors: int
    confidence: Literal["high", "low"] = "high"


@dataclass(frozen=True, slots=True)
class LossPair:
    """The losses of one step and whether they agree; None where a side has none."""

    step: int
    rank: int
    a: float | None
    b: float | None
    agrees: bool | None
    op_a: str | None = None
    op_b: str | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """A subnet or a layer: its worst pair."""

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
    """Everything found; ``reasons`` are the sentences that lead from rough to fine. ``mixed``: one
    side computes in lower precision throughout."""

    verdict: Verdict
    a: SideSummary
    b: SideSummary
    steps: tuple[int, ...]
    first_divergence: DivergenceStart | None
    pairs: tuple[OpPair, ...]
    unpaired: tuple[Unpaired, ...]
    losses: tuple[LossPair, ...]
    parts: tuple[Part, ...]
    growth: tuple[Growth, ...]
    reasons: tuple[str, ...]
    notes: tuple[str, ...] = ()
    by: Literal["values", "statistics", "both"] = "values"
    mixed: bool = False
    compared_bytes: int = field(default=0, compare=False)
