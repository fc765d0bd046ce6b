"""The query parameters of the routes; ``docs/wire.md`` says which route takes which."""

from __future__ import annotations

from typing import Annotated

import msgspec

from sonde.wire.comparison import PairSort, PairStatus, Side
from sonde.wire.shapes import Category, Io, Phase, Plain, TensorName, Verdict

Slot = Annotated[int, msgspec.Meta(ge=0)]


class PlaceQuery(Plain, frozen=True):
    """``rank`` None: the lowest rank; ``graph`` None: the one that runs, or ran last."""

    rank: int | None = None
    graph: int | None = None


class LevelQuery(PlaceQuery, frozen=True):
    scope: str = ""
    group: str = ""


class OpeningQuery(PlaceQuery, frozen=True):
    """``boxes``: about how many boxes to show."""

    boxes: int = 30


class TreeQuery(PlaceQuery, frozen=True):
    scope: str = ""
    offset: int = 0
    limit: int = 200


class NodesQuery(PlaceQuery, frozen=True):
    """``query``: words that the name must contain; ``line`` is used with ``file``."""

    query: str = ""
    category: Category | None = None
    phase: Phase | None = None
    file: str = ""
    line: int | None = None
    hits: bool = False
    offset: int = 0
    limit: int = 200


class OpQuery(PlaceQuery, frozen=True, kw_only=True):
    name: str


class OpTensorsQuery(Plain, frozen=True, kw_only=True):
    name: str
    rank: int | None = None
    step: int | None = None


class SourcesQuery(PlaceQuery, frozen=True):
    query: str = ""


class CodeQuery(PlaceQuery, frozen=True, kw_only=True):
    file: str
    line: int
    around: int = 20


class TensorQuery(Plain, frozen=True, kw_only=True):
    """One tensor; ``step`` None: the latest step."""

    op: str
    io: Io = "output"
    slot: Slot = 0
    step: int | None = None
    rank: int | None = None

    @property
    def tensor(self) -> TensorName:
        return TensorName(self.op, self.io, self.slot, self.step)


class SummaryQuery(TensorQuery, frozen=True, kw_only=True):
    bins: int = 50


class TableQuery(TensorQuery, frozen=True, kw_only=True):
    index: str = ""


class HeatQuery(TensorQuery, frozen=True, kw_only=True):
    index: str = ""
    rows: int = 256
    columns: int = 256


class CompareQuery(TensorQuery, frozen=True, kw_only=True):
    """The other tensor is this one except for the parameters ``with_...``."""

    with_rank: int | None = None
    with_op: str | None = None
    with_io: Io | None = None
    with_slot: Slot | None = None
    with_step: int | None = None
    with_run: str | None = None
    index: str = ""
    tolerance: float = 0.0

    @property
    def other(self) -> TensorName:
        return TensorName(
            self.with_op or self.op,
            self.with_io or self.io,
            self.slot if self.with_slot is None else self.with_slot,
            self.step if self.with_step is None else self.with_step,
        )


class HitsQuery(PlaceQuery, frozen=True):
    watchpoint: int | None = None
    step: int | None = None
    op: str | None = None
    verdict: Verdict | None = None
    offset: int = 0
    limit: int = 200


class WatchpointQuery(Plain, frozen=True):
    """``must_match``: refuse a pattern that matches nothing in the known graphs."""

    must_match: bool = False


class LossQuery(Plain, frozen=True):
    rank: int | None = None
    after: int = -1


class RecheckQuery(Plain, frozen=True):
    """``wait_seconds``: answer when the check has ended, at the latest after this time; 0: for a
    dump at once, for a training when the check has ended."""

    wait_seconds: float = 0.0


class PairsQuery(Plain, frozen=True):
    """``query``: words that one of the names must contain; ``op``: the full name in this run."""

    query: str = ""
    op: str = ""
    status: PairStatus | None = None
    phase: Phase | None = None
    step: int | None = None
    sort: PairSort = "order"
    offset: int = 0
    limit: int = 200


class UnpairedQuery(Plain, frozen=True):
    query: str = ""
    side: Side | None = None
    offset: int = 0
    limit: int = 200
