"""Decides from error norms whether compiled code computes the right results.

The same computation in three ways (eager, the compiler's graph op by op, compiled) is compared with
a float64 reference. Compiled code is right if its error is about as large as that of eager, or as
the change of the result when the last bits of the inputs change; a smaller error is right, too.

Errors are Euclidean norms of the difference to float64, over the elements that are finite on both
sides; elements that are NaN or infinite only in compiled code are counted and always wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import hypot, inf, isfinite
from typing import Final, Literal

from sonde.core.graph import Source

Kind = Literal["output", "buffer", "gradient", "weight"]
KINDS: Final[tuple[Kind, ...]] = ("output", "buffer", "gradient", "weight")
Closer = Literal["compiled", "eager", "both alike"]

NOISE_FACTOR: Final = 10.0
"""How many times the error of eager, or the effect of changing the last bits of the inputs, the
error of compiled code may be."""
ROUNDING_STEPS: Final = 8.0
"""How many roundings of the result's own size are always allowed."""
ALONE_FACTOR: Final = 2.0
"""How many times the error of eager, or one rounding, the error of a single op may be."""
_FINER = 1e-3
_LOW_PRECISION = 1e-4
_ALIKE = 1.25
_SMALL_PART = 1e-3


@dataclass(frozen=True, slots=True)
class ResultComparison:
    """One result of a graph, computed in three ways; errors are absolute.

    ``norm`` is that of the reference, ``shift`` the change of eager's result when the last bits of
    its inputs change, ``epsilon`` the spacing of the coarsest dtype the graph computes in,
    ``group_norm`` the norm of all results of this kind: a result that is tiny compared with them
    may have the rounding error of a thousandth of that norm. ``interpreted`` is NaN if the graph
    could not be run op by op. ``broken`` counts elements that are non-finite only in compiled code.
    """

    kind: Kind
    name: str
    dtype: str
    norm: float
    group_norm: float
    epsilon: float
    eager: float
    interpreted: float
    compiled: float
    shift: float
    broken: int = 0

    @property
    def allowed(self) -> float:
        size = max(self.norm, _SMALL_PART * self.group_norm)
        return NOISE_FACTOR * max(self.eager, self.shift) + ROUNDING_STEPS * self.epsilon * size

    @property
    def agrees(self) -> bool:
        return self.broken == 0 and self.compiled <= self.allowed

    @property
    def interpreted_agrees(self) -> bool:
        return not self.interpreted > self.allowed


@dataclass(frozen=True, slots=True)
class Total:
    """All results of one kind together; errors are relative to the norm of the reference."""

    kind: Kind
    count: int
    agreeing: int
    eager: float
    interpreted: float
    compiled: float

    @property
    def closer(self) -> Closer:
        """The one with the smaller error; "both alike" if they differ by less than a quarter."""
        if self.compiled * _ALIKE < self.eager:
            return "compiled"
        if self.eager * _ALIKE < self.compiled:
            return "eager"
        return "both alike"


def totals(comparisons: Sequence[ResultComparison]) -> tuple[Total, ...]:
    """The comparisons of each kind together."""
    found = []
    for kind in KINDS:
        group = [each for each in comparisons if each.kind == kind]
        if group:
            norm = hypot(*(each.norm for each in group))
            found.append(
                Total(
                    kind,
                    len(group),
                    sum(each.agrees for each in group),
                    relative(hypot(*(each.eager for each in group)), norm),
                    relative(hypot(*(each.interpreted for each in group)), norm),
                    relative(hypot(*(each.compiled for each in group)), norm),
                )
            )
    return tuple(found)


def relative(error: float, norm: float) -> float:
    """An error as a share of a norm: 0 for no error, inf where only the norm is 0."""
    if error == 0:
        return 0.0
    return error / norm if norm else inf


@dataclass(frozen=True, slots=True)
class OpErrors:
    """The errors of one op, run on its inputs in compiled code, compared with the op in float64.

    ``compiled``, ``eager`` and ``shift`` are pairs: the Euclidean norm of the error and its largest
    element. ``length`` is the number of input elements per output element: long sums may be added
    in another order.
    """

    norm: tuple[float, float]
    epsilon: float
    length: float
    compiled: tuple[float, float]
    eager: tuple[float, float]
    shift: tuple[float, float]
    broken: int = 0

    @property
    def allowed(self) -> tuple[float, float]:
        steps = ROUNDING_STEPS * (1 + self.length**0.5 / 8)
        first, second = (
            NOISE_FACTOR * max(self.eager[each], self.shift[each])
            + steps * self.epsilon * self.norm[each]
            for each in (0, 1)
        )
        return first, second

    @property
    def allowed_alone(self) -> float:
        """The largest norm of the error of an op that ran alone on these inputs.

        Twice eager's error or half a spacing of each element, and a small part of the effect of
        changed inputs: sums of bfloat16 are accumulated in float32, which is ten thousand times
        finer.
        """
        own = max(self.eager[0], self.epsilon / 2 * self.norm[0])
        return ALONE_FACTOR * (own + _FINER * self.shift[0])

    @property
    def is_suspicious(self) -> bool:
        """Whether the dtype is of low precision and the error larger than rounding explains."""
        limit = self.allowed_alone
        return self.epsilon > _LOW_PRECISION and isfinite(limit) and self.compiled[0] > limit

    @property
    def is_right(self) -> bool:
        return self.broken == 0 and all(
            not isfinite(limit) or error <= limit
            for error, limit in zip(self.compiled, self.allowed, strict=True)
        )


Fault = Literal["decomposition", "lowering", "unknown"]


@dataclass(frozen=True, slots=True)
class WrongOp:
    """The first op of compiled code with an error larger than its dtype explains.

    ``fault`` says whether the compiler's decomposition of the op is wrong when it is run op by op,
    or only the generated code. Errors are relative to the float64 result.
    """

    op: str
    phase: Literal["forward", "backward"]
    module: str
    source: Source | None
    dtype: str
    shape: tuple[int, ...]
    compiled: float
    eager: float
    allowed: float
    broken: int
    fault: Fault


@dataclass(frozen=True, slots=True)
class Member:
    """One op of a ``WrongGroup``."""

    op: str
    module: str
    source: Source | None


@dataclass(frozen=True, slots=True)
class WrongGroup:
    """Ops of compiled code that are right one by one, and wrong when they are fused to one kernel.

    The results deviate even if the values of all other ops are kept in memory; they are right if
    the values of the group are kept as well.
    """

    phase: Literal["forward", "backward", "forward and backward"]
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class GraphVerdict:
    """The verdict on one compiled graph. ``problems``: sentences about parts that could not be run.

    ``random_ops`` counts ops that draw random numbers; all three ways drew the same numbers unless
    ``is_random_matched`` is False.
    """

    name: str
    backend: str
    op_count: int
    judged_ops: int
    comparisons: tuple[ResultComparison, ...]
    wrong: WrongOp | None
    random_ops: int = 0
    is_random_matched: bool = True
    problems: tuple[str, ...] = field(default=())
    together: WrongGroup | None = None

    @property
    def disagreeing(self) -> tuple[ResultComparison, ...]:
        return tuple(each for each in self.comparisons if not each.agrees)

    @property
    def is_judged(self) -> bool:
        """Whether enough was compared for a verdict: results, or ops if results are random."""
        return bool(self.comparisons) and (self.is_random_matched or self.judged_ops > 0)

    @property
    def agrees(self) -> bool:
        """Results that differ because of different random numbers do not count."""
        if self.wrong is not None:
            return False
        return not self.disagreeing or not self.is_random_matched


@dataclass(frozen=True, slots=True)
class CompileVerdict:
    """The verdict on all compiled graphs of one step."""

    step: int
    graphs: tuple[GraphVerdict, ...]
    weights: tuple[ResultComparison, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        is_random = any(not graph.is_random_matched for graph in self.graphs)
        return all(graph.agrees for graph in self.graphs) and (
            is_random or all(each.agrees for each in self.weights)
        )

    @property
    def is_complete(self) -> bool:
        return all(graph.is_judged for graph in self.graphs)

    @property
    def totals(self) -> tuple[Total, ...]:
        every = [each for graph in self.graphs for each in graph.comparisons]
        return totals([*every, *self.weights])
