"""Compares two checkpoints: which weights changed, and how much."""

from __future__ import annotations

from dataclasses import dataclass

from sonde.compare.parameter_names import Role, role_of
from sonde.compare.weights.checkpoint import Checkpoint, Weight, same_bits
from sonde.compare.weights.pair import ParameterPair, ParameterPairing, pair_parameters
from sonde.compare.weights.table import weight_distances
from sonde.kernels import Distances


@dataclass(frozen=True, slots=True)
class WeightDifference:
    """The change of one weight from a to b.

    ``is_same``: bit for bit if order and type allow that comparison, else value for value.
    ``relative`` is |b - a| / |a| as norms over finite elements: 0 for no change, inf if a is all
    zeros, NaN if no element is finite on both sides or there are no values.
    """

    pair: ParameterPair
    a: Weight
    b: Weight
    role: Role
    is_same: bool
    distances: Distances | None
    non_finite_a: int
    non_finite_b: int

    @property
    def relative(self) -> float:
        return float("nan") if self.distances is None else self.distances.relative_l2


@dataclass(frozen=True, slots=True)
class CheckpointDiff:
    """The changes, in the order of a."""

    changes: tuple[WeightDifference, ...]
    pairing: ParameterPairing

    @property
    def is_same(self) -> bool:
        """No weight changed, and both sides have the same weights."""
        pairing = self.pairing
        unpaired = pairing.counters or pairing.state_a or pairing.state_b or pairing.flat
        return pairing.is_complete and not unpaired and all(each.is_same for each in self.changes)

    @property
    def stuck(self) -> tuple[WeightDifference, ...]:
        """Weights that did not change although others did: frozen, unused, or without gradient."""
        if all(each.is_same for each in self.changes if each.role == "weight"):
            return ()
        return tuple(each for each in self.changes if each.is_same and each.role == "weight")


def diff_checkpoints(a: Checkpoint, b: Checkpoint) -> CheckpointDiff:
    """Compare two checkpoints weight by weight; memory for one pair at a time.

    A CheckpointError if a dump has only statistics of a weight.
    """
    for weight in (*a.weights.values(), *b.weights.values()):
        if weight.load is None:
            weight.bits()  # raises
    pairing = pair_parameters(a.shapes, b.shapes)
    names = a.weights.keys()
    changes = tuple(
        _change(pair, a.weights[pair.a], b.weights[pair.b], role_of(pair.a, names))
        for pair in pairing.pairs
    )
    return CheckpointDiff(changes, pairing)


def _change(pair: ParameterPair, a: Weight, b: Weight, role: Role) -> WeightDifference:
    measured = weight_distances(a, b, pair.fit)
    if a.dtype != b.dtype:
        is_same = False
    elif pair.fit.is_plain:
        is_same = same_bits(a, b)
    else:
        is_same = measured is not None and measured.is_equal
    return WeightDifference(pair, a, b, role, is_same, measured, _non_finite(a), _non_finite(b))


def _non_finite(weight: Weight) -> int:
    found = weight.statistics()
    return 0 if found is None else found.non_finite_count
