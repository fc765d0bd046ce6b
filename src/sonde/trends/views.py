"""The tables and views of ``sonde query``, as SQL; docs/query.md describes them for users.

``ops`` is a table in memory, because it is small; ``rows`` reads the Parquet files at each query.
The columns of statistics depend on the run: a view has null for one that was not recorded.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sonde.core.graph import OPTIMIZER
from sonde.core.statistics import HASHES
from sonde.dump.statistic_store.columns import HASH_DIGITS, IS_TENSOR, NON_FINITE, STATISTICS
from sonde.dump.statistic_store.engine import files_of, text_of
from sonde.watch.op_types import ALLOCATING, OVERWRITING, VIEWS

DESCRIPTIONS: Final = {
    "tensors": "every tensor of every step, with its op and statistics",
    "series(op, statistic)": "one statistic of the tensors of an op over the steps; op: its full "
    "name or the last parts of it",
    "first_nonfinite": "the first tensor of each rank with NaN or Inf",
    "growth(window)": "how much the norm of each tensor has grown, and since which step, from its "
    "mean in windows of so many steps",
    "rank_outliers(step)": "the tensors of a step by how far a rank's norm is from the median of "
    "all ranks",
    "layers(step)": "gradient norm, activation rms, zero fraction, weight norm, update ratio and "
    "non-finite values of each layer in a step",
    "signals": "loss, learning rate, norms, update ratio and time of each step",
    "ops": "the op table: every tensor of every op, with its shape and dtype",
    "rows": "the numbers alone, by the number of the op",
}
"""What users can select from."""

DERIVED: Final = ("rms", "zero_fraction")
"""Statistics of a tensor that are computed from others and its number of elements."""

_WITH_GRADIENT = "^(b?float|complex)"
"""The dtypes of gradients and activations; others are indices, masks and workspaces of ops."""

_OP_COLUMNS = "name as op, type, layer, phase, io, slot, dtype, shape"


def rank_union(files: Mapping[int, Sequence[Path]]) -> str:
    """A query for the files of all ranks, with a column ``rank``."""
    parts = (
        f"select {rank}::integer as rank, * from {files_of(paths)}"
        for rank, paths in files.items()
        if paths
    )
    return " union all by name ".join(parts)


def view_statements(columns: Collection[str]) -> list[str]:
    """The statements that create the views over ``ops`` and ``rows``, which has ``columns``."""
    known = [name for name in STATISTICS if name in columns and name != NON_FINITE]
    return [
        _tensors(known, [name for name in HASHES if name in columns]),
        _series(columns),
        _first_nonfinite(),
        _growth(columns),
        _rank_outliers(columns),
        _signals(columns),
        _layer_ops(),
        _layers(columns),
    ]


def value_of(statistic: str, columns: Collection[str], suffix: str = "") -> str:
    """The expression of one statistic over ``rows`` joined with ``ops``; ``suffix`` is "", or
    "_low" or "_high" for the extremes of a thinned row."""
    if statistic == "rms":
        return f"({value_of('l2norm', columns, suffix)}) / sqrt(nullif(ops.count, 0))"
    if statistic == "zero_fraction":
        return f"({value_of('zero_count', columns, suffix)}) / nullif(ops.count, 0)"
    if statistic == "count" or statistic not in columns:
        return "ops.count" if statistic == "count" else "null::double"
    if suffix and f"{statistic}{suffix}" in columns:
        return f"coalesce(rows.{statistic}{suffix}, rows.{statistic})"
    return f"rows.{statistic}"


def _tensors(statistics: Sequence[str], hashes: Sequence[str]) -> str:
    numbers = "".join(f", rows.{name}" for name in statistics if name != "count")
    numbers += "".join(
        f", lpad(lower(to_hex(rows.{name})), {HASH_DIGITS}, '0') as {name}" for name in hashes
    )
    return (
        "create or replace view tensors as select rows.rank, rows.step, "
        f"ops.{_OP_COLUMNS.replace(', ', ', ops.')}, ops.count{numbers}, rows.{NON_FINITE}, "
        "ops.line, make_timestamp(rows.time) as time, rows.graph, rows.position "
        f"from rows join ops on rows.rank = ops.rank and rows.op = ops.id where rows.{IS_TENSOR}"
    )


def _series(columns: Collection[str]) -> str:
    names = [*STATISTICS, *DERIVED]
    cases = {
        title: " ".join(
            f"when {text_of(name)} then ({value_of(name, columns, suffix)})::double"
            for name in names
        )
        for title, suffix in (("value", ""), ("low", "_low"), ("high", "_high"))
    }
    unknown = f"there is no statistic of this name; there are {', '.join(names)}"
    values = ", ".join(
        f"case statistic {case} else error({text_of(unknown)}) end as {title}"
        for title, case in cases.items()
    )
    steps = "coalesce(rows.steps, 1)" if "steps" in columns else "1"
    return (
        "create or replace macro series(op_name, statistic) as table "
        f"select rows.rank, rows.step, {steps} as steps, ops.name as op, ops.io, ops.slot, "
        f"{values} from rows join ops on rows.rank = ops.rank and rows.op = ops.id "
        "where ops.name = op_name or suffix(ops.name, '/' || op_name) "
        "order by ops.name, ops.io, ops.slot, rows.rank, rows.step"
    )


def _is_filled() -> str:
    """Whether the tensors of an entry of the op table hold what an op has computed: memory that is
    allocated and not filled yet may have NaN, and is also seen by views and by what fills it."""
    types = {
        name: ", ".join(map(text_of, sorted(each)))
        for name, each in (("new", ALLOCATING), ("over", OVERWRITING), ("view", VIEWS))
    }
    return (
        f"not (ops.io = 'output' and ops.type in ({types['new']}) "
        f"or ops.io = 'input' and ops.slot = 0 and ops.type in ({types['over']}) "
        f"or ops.type in ({types['view']}))"
    )


def _first_nonfinite() -> str:
    bad = (
        f"rows.{NON_FINITE} > 0 and (rows.rank, rows.op) in "
        f"(select (ops.rank, ops.id) from ops where {_is_filled()})"
    )
    return (
        "create or replace view first_nonfinite as with firsts as (select rank, min(step) as step "
        f"from rows where {bad} group by rank), numbered as (select rows.rank, "
        "rows.step, arg_min(rows.op, rows.position) as number from rows "
        "join firsts using (rank, step) "
        f"where {bad} group by all) "
        f"select rows.rank, rows.step, ops.name as op, ops.type, ops.layer, ops.phase, ops.io, "
        f"ops.slot, rows.{NON_FINITE}, ops.count, ops.line from rows join numbered on "
        "rows.rank = numbered.rank and rows.step = numbered.step and rows.op = numbered.number "
        "join ops on ops.rank = rows.rank and ops.id = rows.op order by rows.step, rows.rank"
    )


def _growth(columns: Collection[str]) -> str:
    norm = value_of("l2norm", columns)
    return (
        "create or replace macro growth(steps_of_window) as table with windows as ("
        f"select rank, op, step // steps_of_window as place, avg({norm}) as norm from rows "
        f"where {IS_TENSOR} group by all), compared as (select *, "
        "isnan(norm) or norm > lag(norm) over ran as rises, "
        "norm < lag(norm) over ran as falls from windows "
        "window ran as (partition by rank, op order by place)), ends as (select rank, op, "
        "arg_min(norm, place) as first_norm, arg_max(norm, place) as last_norm, "
        "min(place) as first_place, max(place) as last_place, "
        "max(place) filter (not rises) as not_rising, "
        "max(place) filter (not falls) as not_falling "
        "from compared group by all having count(*) > 1), found as (select *, "
        "coalesce(if(last_norm < first_norm, not_falling, not_rising), first_place) as place, "
        "if(place = last_place, null, place * steps_of_window) as since from ends) "
        f"select found.rank, {_OP_COLUMNS.split(', dtype')[0]}, first_norm, last_norm, "
        "last_norm / nullif(first_norm, 0) as factor, since from found "
        "join ops on found.rank = ops.rank and found.op = ops.id "
        "order by abs(ln(nullif(factor, 0))) desc nulls last"
    )


def _rank_outliers(columns: Collection[str]) -> str:
    norm = value_of("l2norm", columns)
    return (
        "create or replace macro rank_outliers(of_step) as table with found as ("
        f"select rows.rank, ops.name as op, ops.io, ops.slot, {norm} as norm "
        "from rows join ops on rows.rank = ops.rank and rows.op = ops.id "
        f"where rows.step = of_step and rows.{IS_TENSOR}), "
        "middles as (select op, io, slot, median(norm) as median, count(*) as ranks "
        "from found group by all having count(*) > 1) "
        "select rank, op, io, slot, norm, median, ranks, "
        "case when median = 0 and norm > 0 then 'inf'::double "
        "else abs(norm - median) / nullif(median, 0) end as deviation "
        "from found join middles using (op, io, slot) where deviation > 0 or isnan(norm) "
        "order by deviation desc nulls first, op, rank"
    )


def _signals(columns: Collection[str]) -> str:
    return (
        f"create or replace view signals as select rows.rank, rows.step, ops.name as signal, "
        f"{value_of('avg', columns)} as value from rows join ops "
        "on rows.rank = ops.rank and rows.op = ops.id where ops.kind = 'signal'"
    )


def _layer_ops() -> str:
    """The table of ops with the part that each has in the statistics of its layer; ``number`` is
    the place of the layer among those of its rank, in the order they first ran."""
    others = ", ".join(text_of(name) for name in sorted(VIEWS | ALLOCATING))
    return (
        "create or replace table layer_ops as with computed as (select * from ops where "
        f"kind = 'op' and io = 'output' and type not in ({others}) "
        f"and regexp_matches(dtype, '{_WITH_GRADIENT}')), "
        "parameters as (select distinct rank, name from ops where kind = 'parameter'), "
        "updates as (select rank, name, min(id) as id from ops where type = 'update' "
        "group by all), "
        "last as (select rank, layer, arg_max(name, id) as name from computed "
        "where phase = 'forward' group by all), "
        "numbered as (select rank, layer, row_number() over (partition by rank order by min(id)) "
        "- 1 as number from ops group by rank, layer) "
        "select ops.rank, ops.id, ops.layer, numbered.number, ops.count, "
        "computed.id is not null and ops.phase = 'backward' as is_gradient, "
        "last.name is not null and computed.id is not null and ops.slot = 0 as is_activation, "
        "ops.kind = 'parameter' and left_over.name is null as is_weight, "
        f"{_is_filled()} as is_filled, "
        "ops.type = 'update' as is_update, updated.id is not null as is_updated from ops "
        "join numbered on ops.rank = numbered.rank and ops.layer = numbered.layer "
        "left join computed on ops.rank = computed.rank and ops.id = computed.id "
        "left join last on ops.rank = last.rank and ops.layer = last.layer "
        "and ops.name = last.name "
        "left join updates as updated on ops.rank = updated.rank and ops.kind = 'parameter' "
        "and ops.name || '/update' = updated.name "
        "left join parameters as left_over on ops.rank = left_over.rank "
        "and ops.kind = 'parameter' and ops.name = left_over.name || '.grad' where ops.layer <> '' "
        f"and not starts_with(ops.layer, {text_of(OPTIMIZER + '-')})"
    )


@dataclass(frozen=True, slots=True)
class LayerStatistic:
    """How a statistic of layers is made: from which ops, the value of each row, and how the rows of
    a layer in one step become one number. ``is_maximum``: the greatest of them. ``needed_ops``:
    without any of these it is not known, if that is fewer than ``ops``. ``needs``: the options of
    ``sonde run`` that record it."""

    description: str
    ops: str
    value: str
    is_maximum: bool
    total: str = "max({0})"
    needed_ops: str = ""
    needs: str = "--stats"

    def of_rows(self, columns: Collection[str]) -> str:
        """The value of a row, of ``rows`` joined with ``ops``."""
        return value_of(self.value, columns)

    def greatest_of_rows(self, columns: Collection[str]) -> str:
        """The same, but for the greatest value of a thinned row where the greatest is meant."""
        return value_of(self.value, columns, "_high" if self.is_maximum else "")

    def is_recorded(self, columns: Collection[str]) -> bool:
        """Whether the rows have what the value is computed from."""
        return "null::double" not in self.of_rows(columns)


LAYER_STATISTICS: Final[Mapping[str, LayerStatistic]] = {
    "grad_norm": LayerStatistic(
        "the largest L2 norm of a gradient that the layer's backward ops computed",
        "is_gradient",
        "l2norm",
        True,
        needs="--stats or --guard",
    ),
    "activation_rms": LayerStatistic(
        "the root mean square of the output of the layer's last forward op",
        "is_activation",
        "rms",
        True,
    ),
    "zero_fraction": LayerStatistic(
        "the share of zeros in the output of the layer's last forward op",
        "is_activation",
        "zero_fraction",
        True,
    ),
    "weight_norm": LayerStatistic(
        "the L2 norm of the layer's parameters before the update",
        "is_weight",
        "l2norm",
        False,
        "sqrt(sum({0} * {0}))",
        needs="--stats or --guard",
    ),
    "update_ratio": LayerStatistic(
        "the norm of the update of the layer's parameters, divided by their norm",
        "(is_updated or is_update)",
        "l2norm",
        False,
        "sqrt(sum({0} * {0}) filter (is_update)) / nullif(sqrt(sum({0} * {0}) "
        "filter (is_updated)), 0)",
        "is_update",
        needs="--stats or --guard",
    ),
    "non_finite_count": LayerStatistic(
        "NaN and Inf in all tensors of the layer",
        "not is_update and is_filled",
        NON_FINITE,
        False,
        "sum({0})::bigint",
    ),
}
"""What is known of a layer in a step."""


def layer_cells(statistic: LayerStatistic, columns: Collection[str]) -> str:
    """A query for one statistic of all layers of a rank (arguments: rank, the least and the
    greatest step of a row, the least of its last step): by ``number`` of the layer, ``step`` and
    ``last_step`` values of which the greatest is meant, without nulls."""
    value = statistic.greatest_of_rows(columns)
    last = last_step(columns)
    source = (
        "from rows join layer_ops as ops on rows.rank = ops.rank and rows.op = ops.id "
        f"where rows.rank = ? and rows.step between ? and ? and {last} >= ? and {statistic.ops}"
    )
    if statistic.is_maximum:
        found = f"select number, rows.step, {last} as last_step, {value} as value {source}"
    else:
        total = statistic.total.format(f"({value})")
        found = (
            f"select number, rows.step, max({last}) as last_step, {total} as value {source} "
            "group by number, rows.step"
        )
    return (
        "select number, step, last_step, value::double as value "
        f"from ({found}) where value is not null"
    )


def last_step(columns: Collection[str]) -> str:
    """The last step that a row stands for: a thinned one stands for several."""
    return "coalesce(rows.last_step, rows.step)" if "last_step" in columns else "rows.step"


def cell_rows(statistic: LayerStatistic, columns: Collection[str]) -> str:
    """A query for the tensors of a cell (arguments: rank, layer, last and first step): the step in
    which each is greatest, and its value there; NaN first."""
    value = f"({statistic.greatest_of_rows(columns)})::double"
    return (
        f"select ops.name, ops.type, ops.phase, ops.io, ops.slot, arg_max(rows.step, {value}), "
        f"max({value}) as value from rows join ops on rows.rank = ops.rank and rows.op = ops.id "
        "join layer_ops as parts on parts.rank = ops.rank and parts.id = ops.id "
        "where rows.rank = ? and parts.layer = ? and rows.step <= ? "
        f"and {last_step(columns)} >= ? and {statistic.ops} group by all "
        "order by value desc nulls last, ops.name"
    )


def _layers(columns: Collection[str]) -> str:
    values = ", ".join(
        each.total.format(f"(case when {each.ops} then {each.of_rows(columns)} end)")
        + f" as {name}"
        for name, each in LAYER_STATISTICS.items()
    )
    return (
        "create or replace macro layers(of_step) as table "
        f"select rows.rank, layer, {values} from rows join layer_ops as ops "
        "on rows.rank = ops.rank and rows.op = ops.id where rows.step = of_step "
        "group by rows.rank, layer order by rows.rank, layer"
    )
