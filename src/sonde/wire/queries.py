"""The query parameters of the routes; ``docs/wire.md`` says which route takes which."""

from __future__ import annotations

from sonde.core.statistics import CellBy
from sonde.wire.api import HitPhase
from sonde.wire.comparison import PairSort, PairStatus, Side
from sonde.wire.numbers import Integer, Natural
from sonde.wire.ranks import MergeKind
from sonde.wire.shapes import (
    BoxStatistic,
    Category,
    GraphDetail,
    Io,
    Phase,
    Plain,
    TensorName,
    Verdict,
)


class PlaceQuery(Plain, frozen=True):
    """``rank`` None: the lowest rank; ``graph`` None: the one that runs, or ran last."""

    rank: Integer | None = None
    graph: Integer | None = None


class GraphQuery(PlaceQuery, frozen=True):
    """``view``: how much of a graph is shown. "everything": all nodes, in the scopes of their name.
    "step" and "model": helpers and constants are folded, and ops outside of modules are in scopes
    of the functions that ran them."""

    view: GraphDetail = "everything"


class RuleQuery(Plain, frozen=True):
    """``kind``: of a finding, such as ``missing-zero-grad``."""

    kind: str


class LevelQuery(GraphQuery, frozen=True):
    scope: str = ""
    group: str = ""


class OpeningQuery(GraphQuery, frozen=True):
    """``boxes``: about how many boxes to show. With the view "model" only scopes of networks."""

    boxes: Integer = 30


class ScopeQuery(GraphQuery, frozen=True, kw_only=True):
    scope: str


class ValuesQuery(LevelQuery, frozen=True, kw_only=True):
    """``step`` None: the latest step that has values."""

    statistic: BoxStatistic
    step: Integer | None = None


class ScopesQuery(GraphQuery, frozen=True):
    """``query``: words that the path must contain."""

    query: str = ""
    limit: Integer = 50


class TreeQuery(GraphQuery, frozen=True):
    scope: str = ""
    offset: Integer = 0
    limit: Integer = 200


class NodesQuery(PlaceQuery, frozen=True):
    """``query``: words that the name must contain, or patterns (``docs/patterns.md``) that must
    select the node; ``line`` is used with ``file``."""

    query: str = ""
    category: Category | None = None
    phase: Phase | None = None
    file: str = ""
    line: Integer | None = None
    hits: bool = False
    offset: Integer = 0
    limit: Integer = 200


class OpQuery(GraphQuery, frozen=True, kw_only=True):
    name: str


class OpTensorsQuery(Plain, frozen=True, kw_only=True):
    name: str
    rank: Integer | None = None
    step: Integer | None = None


class SourcesQuery(PlaceQuery, frozen=True):
    query: str = ""


class CodeQuery(PlaceQuery, frozen=True, kw_only=True):
    file: str
    line: Integer
    around: Integer = 20


class TensorQuery(Plain, frozen=True, kw_only=True):
    """One tensor; ``step`` None: the latest step."""

    op: str
    io: Io = "output"
    slot: Natural = 0
    step: Integer | None = None
    rank: Integer | None = None

    @property
    def tensor(self) -> TensorName:
        return TensorName(self.op, self.io, self.slot, self.step)


class SummaryQuery(TensorQuery, frozen=True, kw_only=True):
    bins: Integer = 50
    index: str = ""


class TableQuery(TensorQuery, frozen=True, kw_only=True):
    index: str = ""


class HeatQuery(TensorQuery, frozen=True, kw_only=True):
    index: str = ""
    rows: Integer = 256
    columns: Integer = 256
    by: CellBy = "mean"


class RankTensorQuery(TensorQuery, frozen=True, kw_only=True):
    """``merge`` None: as the placement of the tensor says, else guessed from its values. ``dim``:
    along which shards are concatenated; ``cells``: of the picture, in each direction."""

    merge: MergeKind | None = None
    dim: Natural = 0
    cells: Natural = 128


class CompareQuery(TensorQuery, frozen=True, kw_only=True):
    """The other tensor is this one except for the parameters ``with_...``."""

    with_rank: Integer | None = None
    with_op: str | None = None
    with_io: Io | None = None
    with_slot: Natural | None = None
    with_step: Integer | None = None
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
    watchpoint: Integer | None = None
    step: Integer | None = None
    op: str | None = None
    verdict: Verdict | None = None
    is_harmless: bool | None = None
    origin: str | None = None
    condition: str | None = None
    phase: HitPhase | None = None
    offset: Integer = 0
    limit: Integer = 200


class CausesQuery(Plain, frozen=True):
    rank: Integer | None = None


class WatchpointQuery(Plain, frozen=True):
    """``must_match``: refuse a pattern that matches nothing in the known graphs."""

    must_match: bool = False


class PresetQuery(Plain, frozen=True):
    """``preset``: an id of ``Catalogue.presets``."""

    preset: str = "recommended"


class PreviewQuery(Plain, frozen=True):
    rank: Integer | None = None


class LossQuery(Plain, frozen=True):
    rank: Integer | None = None
    after: Integer = -1


class HealthQuery(Plain, frozen=True):
    """``first`` and ``last``: the steps of the curves, None: all; ``points``: about how many of
    each curve."""

    rank: Integer | None = None
    first: Integer | None = None
    last: Integer | None = None
    points: Integer = 2000


class LayersQuery(Plain, frozen=True, kw_only=True):
    """A part of the map: the steps ``first`` to ``last`` (None: all) and the layers ``top`` to
    ``bottom``, excluded (None: all), in at most ``rows`` x ``columns`` cells. ``with_run``: another
    run, whose cells are returned, too; ``with_rank`` of it."""

    statistic: str
    rank: Integer | None = None
    first: Integer | None = None
    last: Integer | None = None
    top: Natural = 0
    bottom: Natural | None = None
    rows: Integer = 400
    columns: Integer = 800
    with_run: str | None = None
    with_rank: Integer | None = None


class CellQuery(Plain, frozen=True, kw_only=True):
    """A layer, and the steps ``first`` to ``last`` (None: only the first)."""

    statistic: str
    layer: str
    first: Integer
    last: Integer | None = None
    rank: Integer | None = None


class TagQuery(Plain, frozen=True, kw_only=True):
    """A tag of a log; ``points``: about how many of a curve, or the most steps of histograms."""

    tag: str
    points: Integer = 1500


class PictureQuery(Plain, frozen=True, kw_only=True):
    """``at``: the place among the pictures of the tag, None: the last."""

    tag: str
    at: Natural | None = None


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
    step: Integer | None = None
    sort: PairSort = "order"
    offset: Integer = 0
    limit: Integer = 200


class UnpairedQuery(Plain, frozen=True):
    query: str = ""
    side: Side | None = None
    offset: Integer = 0
    limit: Integer = 200
