"""The names of the Parquet files of a rank, and which of them count.

``rows.0-999.op_order.parquet`` has the rows of the steps 0 to 999. A file is replaced by one that
covers more, or is in a later form: that one is renamed into place first, then the replaced ones are
removed. A reader ignores every file whose range lies in that of a file of a later form, so that it
sees each row once at any moment, also after a kill between the two.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, cast

from sonde.core.files.atomic_file import open_new, partial_path
from sonde.dump.statistic_store.engine import failure, text_of

Table = Literal["ops", "rows"]
Form = Literal["piece", "merged", "op_order", "thinned"]
FORMS: Final[tuple[Form, ...]] = ("piece", "merged", "op_order", "thinned")
"""From the first to the last form of a file: a few seconds of steps as they ran; many of these in
one; about 1,000 steps sorted by op; of which a summary is kept."""

_NAME = re.compile(
    r"(ops|rows)\.([0-9]{1,18})-([0-9]{1,18})\.(piece|merged|op_order|thinned)\.parquet"
)
_OPTIONS = "format parquet, codec zstd, parquet_version v2, row_group_size 40960"


@dataclass(frozen=True, slots=True)
class StoreFile:
    """One file: the rows of steps, or of numbers of ops, from ``first`` to ``last``."""

    path: Path
    table: Table
    first: int
    last: int
    form: Form

    def replaces(self, other: StoreFile) -> bool:
        """Whether the rows of ``other`` are in this file, too."""
        if self.table != other.table or other.first < self.first or self.last < other.last:
            return False
        mine = (FORMS.index(self.form), self.last - self.first)
        return mine > (FORMS.index(other.form), other.last - other.first)


def store_file(directory: Path, table: Table, first: int, last: int, form: Form) -> StoreFile:
    """The file with this range; it need not exist."""
    path = directory / f"{table}.{first}-{last}.{form}.parquet"
    return StoreFile(path, table, first, last, form)


def parse_file(path: Path) -> StoreFile | None:
    """What the name of a file says; None for other files."""
    found = _NAME.fullmatch(path.name)
    if found is None:
        return None
    table, form = cast(Table, found[1]), cast(Form, found[4])
    return StoreFile(path, table, int(found[2]), int(found[3]), form)


def list_files(directory: Path, table: Table) -> tuple[StoreFile, ...]:
    """The files that count, in the order of their rows; none if there is no such directory."""
    try:
        with os.scandir(directory) as entries:  # A pipe of such a name would block its reader.
            names = [each.name for each in entries if each.is_file()]
    except OSError:
        return ()
    parsed = (parse_file(directory / name) for name in names)
    found = [each for each in parsed if each is not None and each.table == table]
    later = [each for each in found if each.form != "piece"]  # A piece replaces nothing.
    counting = (each for each in found if not any(other.replaces(each) for other in later))
    return tuple(sorted(counting, key=lambda each: (each.first, each.last)))


def write_file(connection: Any, query: str, file: StoreFile) -> None:
    """Write the result of ``query``, whole or not at all."""
    partial = partial_path(file.path)
    open_new(partial).close()  # Refuses a link; DuckDB would follow one.
    try:
        connection.execute(f"copy ({query}) to {text_of(str(partial))} ({_OPTIONS})")
        os.replace(partial, file.path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def remove_replaced(file: StoreFile, candidates: Sequence[StoreFile]) -> None:
    """Remove the files whose rows ``file`` has, now that it is there."""
    for each in candidates:
        if file.replaces(each):
            each.path.unlink(missing_ok=True)


T = TypeVar("T")


def read_listed(directory: Path, table: Table, read: Callable[[tuple[StoreFile, ...]], T]) -> T:
    """Call ``read`` with the files of a table; again if one of them was replaced meanwhile."""
    while True:
        listed = list_files(directory, table)
        try:
            return read(listed)
        except (failure(), FileNotFoundError):
            if all(each.path.exists() for each in listed):
                raise
