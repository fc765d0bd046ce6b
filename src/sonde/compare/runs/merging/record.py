"""A tensor of a run of several ranks or micro-batches: its parts, and how they are merged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import product
from math import inf
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sonde import kernels
from sonde.compare.run_layout import AxisRule
from sonde.compare.runs.merging.grid import RankGrid
from sonde.compare.runs.merging.plan import MergePlan, Parts, Place, is_equal_along
from sonde.dump.tensor_record import TensorRecord

_FAR: Final = 1e-3
"""The relative distance from which on other orders of the rows are tried."""


@dataclass(frozen=True, slots=True)
class MergedRecord(TensorRecord):
    """A tensor whose values are merged when they are read. Its other fields are those of the first
    part. ``whole_shape`` is the shape of the merged tensor."""

    parts: Mapping[Place, TensorRecord] = field(default_factory=dict)
    grid: RankGrid = field(default_factory=lambda: RankGrid((), ()))
    plan: MergePlan = field(default_factory=lambda: MergePlan((), "inferred"))
    whole_shape: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return self.whole_shape

    def numpy(self) -> NDArray[Any]:
        """The merged values, without a reference to decide by."""
        parts = self.read()
        return self.plan.merge(parts, self.plan.settled(parts))

    def single_number(self) -> float | None:
        return float(self.numpy().reshape(-1)[0])

    def read(self) -> Parts:
        return {place: record.numpy() for place, record in self.parts.items()}

    def against(self, reference: NDArray[Any]) -> tuple[NDArray[Any], tuple[AxisRule, ...]]:
        """The merged values to compare with ``reference``, and the rules used.

        Of parts that should be equal and are not, those that differ most. Of sums and means, where
        nothing says which it is, the nearer one. Other rules of the plan where these are far off.
        """
        parts = self.read()
        settled = self.plan.settled(parts)
        unequal = [
            number
            for number, rule in enumerate(settled)
            if rule.rule == "one" and not is_equal_along(parts, number)
        ]
        if unequal:
            chosen = max(
                _choices(parts, unequal),
                key=lambda each: distance(self.plan.merge(each, settled), reference),
            )
            return self.plan.merge(chosen, settled), settled
        candidates = self.candidates()
        if len(candidates) == 1 and not self.plan.others:
            return candidates[0]
        distances = [distance(values, reference) for values, _ in candidates]
        if min(distances) > _FAR and self.plan.others:
            for rules in self.plan.others:
                other = replace(self, plan=replace(self.plan, rules=rules, others=()))
                candidates += other.candidates()
            distances = [distance(values, reference) for values, _ in candidates]
        return candidates[distances.index(min(distances))]

    def candidates(self) -> list[tuple[NDArray[Any], tuple[AxisRule, ...]]]:
        """The merged values by each reading that is not ruled out, with the rules used."""
        parts = self.read()
        settled = self.plan.settled(parts)
        readings = self._readings(settled) if self.plan.is_free else (settled,)
        return [
            (self.plan.merge(parts, rules, factor), rules)
            for rules in readings
            for factor in self.plan.scales
        ]

    def _readings(self, settled: tuple[AxisRule, ...]) -> Iterator[tuple[AxisRule, ...]]:
        """The rules, with a sum and a mean for each axis on which the parts differ."""
        options = [
            (replace(rule, rule="mean"), replace(rule, rule="sum"))
            if before.rule == "same" and rule.rule != "one"
            else (rule,)
            for before, rule in zip(self.plan.rules, settled, strict=True)
        ]
        yield from product(*options)

    def ranks_that_differ(self, reference: NDArray[Any], allowed: float) -> tuple[int, ...]:
        """The ranks whose parts are farther from ``reference`` than ``allowed``, relative to its
        norm; empty if the parts of single ranks cannot be compared with it."""
        parts = self.read()
        settled = self.plan.settled(parts)
        if any(rule.rule not in ("one", "concat") for rule in settled):
            return ()
        ranks = {place: rank for place, _, rank in self.grid.places()}
        errors = {ranks[place]: 0.0 for place in parts}
        for place, error in self._part_errors(parts, settled, reference):
            errors[ranks[place]] = max(errors[ranks[place]], error)
        limit = max(allowed, 0.1 * max(errors.values()))
        return tuple(sorted(rank for rank, error in errors.items() if error > limit))

    def _part_errors(
        self, parts: Parts, settled: tuple[AxisRule, ...], reference: NDArray[Any]
    ) -> Iterator[tuple[Place, float]]:
        """The relative distance of each part from the elements that it is in ``reference``."""
        ones = [number for number, rule in enumerate(settled) if rule.rule == "one"]
        numbers = {place: number for number, place in enumerate(parts)}
        for chosen in _choices(parts, ones):
            owners = {
                place: np.full(values.shape, numbers[place], np.int32)
                for place, values in chosen.items()
            }
            owner = replace(self.plan, scale=1.0).merge(owners, settled)
            whole = self.plan.merge(chosen, settled)
            if whole.size != reference.size:
                return
            flat = reference.reshape(whole.shape)
            for place in chosen:
                own = owner == numbers[place]
                yield place, distance(whole[own], flat[own])


def merged_record(
    parts: Mapping[Place, TensorRecord], grid: RankGrid, plan: MergePlan, shape: tuple[int, ...]
) -> MergedRecord:
    first = parts[min(parts)]
    values = {each.name: getattr(first, each.name) for each in fields(TensorRecord) if each.init}
    return MergedRecord(**values, parts=parts, grid=grid, plan=plan, whole_shape=shape)


def values_of_both(
    a: TensorRecord, b: TensorRecord
) -> tuple[NDArray[Any], NDArray[Any], tuple[AxisRule, ...]]:
    """The values of two tensors, and the rules by which those of ranks were merged. If both were
    merged, and several readings of b are possible, the one that is nearest to a."""
    if isinstance(a, MergedRecord) and isinstance(b, MergedRecord):
        both = [(a.against(values), values) for values, _ in b.candidates()]
        (left, rules), right = min(both, key=lambda each: distance(each[0][0], each[1]))
        return left, right, rules
    if isinstance(a, MergedRecord):
        right = b.numpy()
        left, rules = a.against(right)
        return left, right, rules
    left = a.numpy()
    if isinstance(b, MergedRecord):
        right, rules = b.against(left)
        return left, right, rules
    return left, b.numpy(), ()


def _choices(parts: Parts, axes: list[int]) -> Iterator[Parts]:
    """For each place on ``axes`` the parts at that place."""
    keys = dict.fromkeys(tuple(place[axis] for axis in axes) for place in parts)
    for key in keys:
        yield {
            place: values
            for place, values in parts.items()
            if tuple(place[axis] for axis in axes) == key
        }


def distance(a: NDArray[Any], b: NDArray[Any]) -> float:
    """The relative distance; infinite if the sizes or the non-finite elements differ."""
    if a.size != b.size:
        return inf
    if not a.size:
        return 0.0
    found = kernels.compare_arrays(np.ascontiguousarray(a).reshape(-1), b.reshape(-1))
    if found.non_finite_disagreed:
        return inf
    return 0.0 if found.is_equal else found.relative_l2
