"""One step of a job as the checks see it: the reports of all ranks, and their groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from sonde.ranks.report import (
    GroupRole,
    PlacementKind,
    RankActivation,
    RankDescription,
    RankGradient,
    RankTensor,
    SpotDigests,
    StepReport,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class JobStep:
    """The reports of one step. ``reports`` has those ranks that reported it; each of them has a
    description. ``previous``: the last step before it whose tensors were hashed, if any;
    ``initial``: the state before the first step. ``previous`` has no ``previous`` itself.
    ``between``: by rank, hashes of the steps between them (``between_samples``)."""

    step: int
    descriptions: Mapping[int, RankDescription]
    reports: Mapping[int, StepReport]
    previous: JobStep | None = None
    initial: JobStep | None = None
    between: Mapping[int, Sequence[SpotDigests]] = field(default_factory=dict)
    _known: _Known = field(default_factory=lambda: _Known(), compare=False, repr=False)

    @property
    def is_sampled(self) -> bool:
        """Whether tensors were hashed on every rank."""
        return all(each.digests for each in self.reports.values())

    def groups(self, role: GroupRole) -> list[tuple[int, ...]]:
        """The groups with this role, each once. Where no rank knows a role, all ranks count as one
        group of data parallelism if they began with the same weights."""
        if role in self._known.groups:
            return self._known.groups[role]
        found: dict[tuple[int, ...], None] = {}
        for description in self.descriptions.values():
            for name, known in description.roles.items():
                if known == role:
                    found[self._present(description.groups.get(name, ()))] = None
        if role == "data" and not self.has_roles and self._has_replicas():
            found[tuple(sorted(self.reports))] = None
        self._known.groups[role] = [ranks for ranks in found if len(ranks) > 1]
        return self._known.groups[role]

    @property
    def has_roles(self) -> bool:
        """Whether a rank knows what its groups are for."""
        return any(each.roles for each in self.descriptions.values())

    def _has_replicas(self) -> bool:
        return any(self.is_replica(each) for each in self.placed("replicated"))

    def placed(self, kind: PlacementKind) -> list[PlacedTensor]:
        """The tensors with such a placement, in module order, once for each group."""
        if kind not in self._known.placed:
            self._known.placed[kind] = list(self._placed(kind))
        return self._known.placed[kind]

    @property
    def digests(self) -> DigestTable:
        """The hashes of the tensors of this step."""
        if self._known.digests is None:
            self._known.digests = DigestTable(self)
        return self._known.digests

    def _placed(self, kind: PlacementKind) -> Iterator[PlacedTensor]:
        seen: set[tuple[str, int]] = set()
        for rank in sorted(self.reports):
            description = self.descriptions[rank]
            for tensor in description.tensors:
                for placement in tensor.placements:
                    ranks = self._present(description.groups.get(placement.group, ()))
                    key = (tensor.name, id(ranks))
                    if placement.kind == kind and len(ranks) > 1 and key not in seen:
                        seen.add(key)
                        yield PlacedTensor(tensor, placement.group, ranks)

    def is_replica(self, placed: PlacedTensor) -> bool:
        """Whether the tensor is meant to be the same on all ranks. Where nobody has declared it, it
        is if it was the same before the first step, or is a copy of what is."""
        if not placed.tensor.is_inferred or placed.tensor.kind == "copy":
            return True
        initial = self if self.step < 0 else self.initial
        if initial is None:
            return False
        digests = initial.digests.of(placed.tensor.name, placed.ranks)
        return len(digests) == len(placed.ranks) and len(split(digests)) == 1

    def _present(self, ranks: tuple[int, ...]) -> tuple[int, ...]:
        """Those that reported the step: the same object for the same ranks, which the descriptions
        of a job share."""
        known = self._known.present.get(id(ranks))
        if known is None:
            found = tuple(sorted(rank for rank in ranks if rank in self.reports))
            known = self._known.same.setdefault(found, found)
            self._known.present[id(ranks)] = known
        return known


@dataclass(slots=True)
class _Known:
    """What was computed of a step, so that many checks of many ranks ask once."""

    groups: dict[GroupRole, list[tuple[int, ...]]] = field(default_factory=dict)
    placed: dict[PlacementKind, list[PlacedTensor]] = field(default_factory=dict)
    present: dict[int, tuple[int, ...]] = field(default_factory=dict)
    same: dict[tuple[int, ...], tuple[int, ...]] = field(default_factory=dict)
    digests: DigestTable | None = None


@dataclass(frozen=True, slots=True)
class PlacedTensor:
    """A tensor and one of the groups that it is laid out over."""

    tensor: RankTensor
    group: str
    ranks: tuple[int, ...]


class DigestTable:
    """The hashes of one step by rank and name; 0: no values."""

    def __init__(self, step: JobStep) -> None:
        self._digests: dict[int, dict[str, int]] = {}
        self._constants: dict[int, set[str]] = {}
        for rank, report in step.reports.items():
            if rank not in step.descriptions:
                continue
            names = [each.name for each in step.descriptions[rank].tensors]
            self._digests[rank] = dict(zip(names, report.digests, strict=False))
            known = [number for number in report.constants if 0 <= number < len(names)]
            self._constants[rank] = {names[number] for number in known}

    def of(self, name: str, ranks: Iterable[int]) -> dict[int, int]:
        """The hashes of those ranks that have values."""
        found = {rank: self._digests.get(rank, {}).get(name, 0) for rank in ranks}
        return {rank: digest for rank, digest in found.items() if digest}

    def is_constant(self, name: str, rank: int) -> bool:
        return name in self._constants[rank]


def gradients_by_name(step: JobStep) -> dict[str, dict[int, RankGradient]]:
    """The gradients of the step: by parameter, then by rank."""
    found: dict[str, dict[int, RankGradient]] = {}
    for rank, report in sorted(step.reports.items()):
        for gradient in report.gradients:
            found.setdefault(gradient.name, {})[rank] = gradient
    return found


def activations_by_name(
    step: JobStep, group: tuple[int, ...]
) -> dict[str, dict[int, RankActivation]]:
    """The activations that all ranks of ``group`` have, in the order of the first: by name, then by
    rank."""
    known = {rank: {each.name: each for each in step.reports[rank].activations} for rank in group}
    return {
        name: {rank: known[rank][name] for rank in group}
        for name in known[group[0]]
        if all(name in each for each in known.values())
    }


def split(
    values: Mapping[int, T], key: Callable[[T], object] = lambda each: each
) -> list[list[int]]:
    """The ranks by equal values: the largest set first, of equal ones that with the lowest rank."""
    sets: dict[object, list[int]] = {}
    for rank in sorted(values):
        sets.setdefault(key(values[rank]), []).append(rank)
    return sorted(sets.values(), key=lambda ranks: (-len(ranks), ranks[0]))


def step_name(step: int) -> str:
    """``after step 3``; ``before the first step``."""
    return "before the first step" if step < 0 else f"after step {step}"
