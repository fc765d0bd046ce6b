"""What the page gets about all ranks of a run together."""

from __future__ import annotations

from typing import Literal

from sonde.wire.numbers import Integer
from sonde.wire.questions import DistanceNumbers, Heat
from sonde.wire.shapes import Plain, StatisticNumbers, TensorName, TensorType

MergeKind = Literal["concatenate", "mean", "sum", "one"]


class RankFinding(Plain, frozen=True):
    """What a check over ranks found: ``ranks`` that differ from the others, or made it, from
    ``step`` on. ``places``: source lines, modules and tensors, the most exact first."""

    kind: str
    status: str
    severity: str
    message: str
    advice: str
    step: Integer | None
    ranks: tuple[Integer, ...]
    places: tuple[str, ...]


class RankCheckRow(Plain, frozen=True):
    """One check, and what it found; ``kinds`` are those of its findings."""

    name: str
    kinds: tuple[str, ...]
    findings: tuple[RankFinding, ...]


class RankGroup(Plain, frozen=True):
    """``role``: data, tensor or pipeline; empty if it is not known."""

    name: str
    role: str
    ranks: tuple[Integer, ...]


class RankPlacement(Plain, frozen=True):
    """How a parameter is laid out over a group; ``dim``: that of a shard. ``is_inferred``: the
    program does not say it."""

    tensor: str
    group: str
    kind: str
    dim: Integer
    is_inferred: bool


class RanksView(Plain, frozen=True):
    """The comparison of the ranks of a run. ``is_compared``: whether they are compared at all.
    ``ranks`` have reported, of ``world_size``; ``last_steps``: the last step of each of them.
    ``parted_step``: the first step in which a finding says that they differ; -1: before it."""

    is_compared: bool
    world_size: Integer
    ranks: tuple[Integer, ...]
    last_steps: tuple[Integer, ...]
    judged_steps: Integer
    parted_step: Integer | None
    checks: tuple[RankCheckRow, ...]
    groups: tuple[RankGroup, ...]
    placements: tuple[RankPlacement, ...]


class RankValues(Plain, frozen=True):
    """A tensor on one rank. ``same_as``: the lowest rank with the same values, itself if no lower
    one has them. ``distances``: from those of the first rank; None where shapes differ. ``why``:
    why the rank has no values; then the rest is empty."""

    rank: Integer
    type: TensorType | None
    statistics: StatisticNumbers | None
    same_as: Integer | None
    distances: DistanceNumbers | None
    why: str


class MergedTensor(Plain, frozen=True):
    """The tensor of all ranks put together: ``kind`` along ``dim``. ``is_by_placement``: as its
    placement says, else as the user chose, or guessed from its shapes."""

    kind: MergeKind
    dim: Integer
    is_by_placement: bool
    type: TensorType
    statistics: StatisticNumbers | None
    heat: Heat


class TensorOfRanks(Plain, frozen=True):
    """One tensor on all ranks side by side. ``merged`` None: ``why_not_merged`` says why."""

    tensor: TensorName
    ranks: tuple[RankValues, ...]
    merged: MergedTensor | None
    why_not_merged: str
