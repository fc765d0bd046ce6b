"""Merges files of rows, sorts them by op, and thins old ones, each whole or not at all.

Runs beside a training, or later from ``sonde dump prune``; readers may be at work.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Final

from sonde.dump.statistic_store.columns import NON_FINITE, STATISTICS
from sonde.dump.statistic_store.engine import files_of
from sonde.dump.statistic_store.files import (
    Form,
    StoreFile,
    list_files,
    remove_replaced,
    store_file,
    write_file,
)

BAND_ROWS: Final = 250_000
"""A sorted file has about so many rows, of whole steps, by op, then those of the next steps: a step
is found without reading the other bands, a series with one place to read in each. docs/decisions
has the measurements."""
BUCKET_STEPS: Final = 100
"""The steps for which a thinned file has one row of an op."""
AROUND: Final = 10
"""The steps before and after a first NaN or Inf, and a trigger, that a thinned file has in full."""

_NOT_MEDIANS = frozenset({NON_FINITE})


def merge(connection: Any, files: Sequence[StoreFile], form: Form) -> StoreFile:
    """Write the rows of consecutive files to one, and remove them: sorted by op, in bands of
    steps, for "op_order", else in the order of steps."""
    source = files_of(each.path for each in files)
    order = "step, position"
    if form == "op_order":
        order = f"step // {_band_steps(connection, source, files)}, op, step, position"
    return _replace(connection, f"select * from {source} order by {order}", files, form)


def _band_steps(connection: Any, source: str, files: Sequence[StoreFile]) -> int:
    """How many steps have about `BAND_ROWS` rows."""
    (rows,) = connection.execute(f"select count(*) from {source}").fetchone()
    return max(round(_span(files) * BAND_ROWS / max(int(rows), 1)), 1)


def thin(
    connection: Any,
    file: StoreFile,
    *,
    bucket: int = BUCKET_STEPS,
    triggered: Collection[int] = (),
    last: int | None = None,
) -> StoreFile:
    """Keep, of each op and each ``bucket`` steps, the median of every statistic, its least
    (``..._low``) and its greatest value (``..._high``); ``steps`` says how many steps a row stands
    for, ``last_step`` which is the last of them. Steps around a first NaN or Inf of any op, around
    the steps that ``triggered``, and after ``last`` stay as they are, with ``steps`` 1; no row
    stands for steps before and after them. Rows that were thinned before stay, too."""
    last = file.last if last is None else last
    source = files_of([file.path])
    names = [name for name in _columns(connection, source) if not _is_of_thinned(name)]
    whole, thinned = source, ""
    if file.form == "thinned":
        whole = f"(select * from {source} where steps = 1)"
        thinned = f"select * from {source} where steps > 1 union all by name "
    near = [step for step in triggered if _is_near(step, file)]
    marked = _marked(whole, names, near, last)
    connection.execute(f"create or replace temp table thinned_rows as {marked}")
    band = f"greatest(step - {last}, 0) // {_band_steps(connection, source, [file])}"
    query = f"{thinned}{_thinned_query(names, bucket)} order by {band}, op, step"
    try:
        return _replace(connection, query, [file], "thinned")
    finally:
        connection.execute("drop table thinned_rows")


def thin_old(
    connection: Any,
    directory: Path,
    full_steps: int,
    *,
    bucket: int = BUCKET_STEPS,
    triggered: Collection[int] = (),
) -> list[StoreFile]:
    """Thin each file sorted by op whose steps are all older than the last ``full_steps``."""
    files = list_files(directory, "rows")
    end = _end(files, full_steps)
    old = [each for each in files if each.form == "op_order" and each.last <= end]
    return [thin(connection, each, bucket=bucket, triggered=triggered) for each in old]


def thin_exactly(
    connection: Any,
    directory: Path,
    full_steps: int,
    *,
    bucket: int = BUCKET_STEPS,
    triggered: Collection[int] = (),
) -> list[StoreFile]:
    """Thin all steps older than the last ``full_steps``, also those of a file with later ones, and
    those that an earlier call has kept. Only for a training that has ended: in a file with both
    a later step would have to be thinned again."""
    files = list_files(directory, "rows")
    end = _end(files, full_steps)
    return [
        thin(connection, each, bucket=bucket, triggered=triggered, last=min(end, each.last))
        for each in files
        if each.form in ("op_order", "thinned") and each.first <= end
    ]


def _end(files: Sequence[StoreFile], full_steps: int) -> int:
    """The last step that is not kept in full."""
    return max((each.last for each in files), default=-1) - full_steps


def compact(connection: Any, directory: Path, *, steps: int) -> list[StoreFile]:
    """Sort by op what a process that was killed has left in the order of steps, ``steps`` at a
    time."""
    made: list[StoreFile] = []
    waiting: list[StoreFile] = []
    for each in list_files(directory, "rows"):
        if each.form in ("piece", "merged"):
            waiting.append(each)
        if waiting and (each.form not in ("piece", "merged") or _span(waiting) >= steps):
            made.append(merge(connection, waiting, "op_order"))
            waiting = []
    if waiting:
        made.append(merge(connection, waiting, "op_order"))
    return made


def _span(files: Sequence[StoreFile]) -> int:
    return files[-1].last - files[0].first + 1


def _replace(connection: Any, query: str, files: Sequence[StoreFile], form: Form) -> StoreFile:
    directory = files[0].path.parent
    file = store_file(directory, "rows", files[0].first, files[-1].last, form)
    write_file(connection, query, file)
    remove_replaced(file, files)
    return file


def _columns(connection: Any, source: str) -> list[str]:
    found = connection.execute(f"describe select * from {source}").fetchall()
    return [str(row[0]) for row in found]


def _is_of_thinned(name: str) -> bool:
    """Whether only thinned files have this column."""
    return name in ("steps", "last_step") or name.endswith(("_low", "_high"))


def _is_near(step: int, file: StoreFile) -> bool:
    return file.first - AROUND <= step <= file.last + AROUND


def _marked(source: str, names: Sequence[str], triggered: Sequence[int], last: int) -> str:
    """The rows, with ``is_kept`` for the steps after ``last``, and around one that ``triggered``,
    or in which an op turns non-finite."""
    more = "".join(f" union select {step}" for step in triggered)
    return (
        f"with found as (select *, {NON_FINITE} > 0 and coalesce(lag({NON_FINITE}) over "
        f"(partition by op order by step) = 0, true) as turns from {source}), "
        f"turning as (select distinct step from found where turns{more}) "
        f"select {', '.join(names)}, step > {last} or exists (select 1 from turning where "
        f"found.step between turning.step - {AROUND} and turning.step + {AROUND}) as is_kept "
        "from found"
    )


def _thinned_query(names: Sequence[str], bucket: int) -> str:
    plain, thinned = [], []
    for name in names:
        if name in ("step", "graph", "time", "position"):
            plain.append(name)
            thinned.append(f"min({name}) as {name}")
        elif name == "op":
            plain.append(name)
            thinned.append(name)
        elif name not in STATISTICS:  # A hash stands for one step only.
            plain.append(name)
            thinned.append(f"null as {name}")
        else:
            middle = f"max({name})" if name in _NOT_MEDIANS else f"quantile_disc({name}, 0.5)"
            plain += [name, f"{name} as {name}_low", f"{name} as {name}_high"]
            thinned += [
                f"{middle} as {name}",
                f"min({name}) as {name}_low",
                f"max({name}) as {name}_high",
            ]
    kept = "select step, bool_or(is_kept)::integer as is_kept from thinned_rows group by step"
    stretches = f"select step, sum(is_kept) over (order by step) as stretch from ({kept})"
    return (
        f"select {', '.join(plain)}, 1 as steps, step as last_step from "
        f"thinned_rows where is_kept union all "
        f"select {', '.join(thinned)}, count(*)::integer as steps, max(step) as last_step "
        f"from thinned_rows join ({stretches}) using (step) where not is_kept "
        f"group by op, step // {bucket}, stretch"
    )
