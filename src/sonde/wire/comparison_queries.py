"""What can be asked of a comparison, as the query of an address."""

from __future__ import annotations

from sonde.wire.comparison import PairSort, PairStatus, Side
from sonde.wire.shapes import Phase, Plain


class PairsQuery(Plain, frozen=True):
    """``query``: words that all are in one of the names; ``op``: of this run, by its full name."""

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


class MarksQuery(Plain, frozen=True):
    rank: int | None = None
    graph: int | None = None
    scope: str = ""
    group: str = ""
