"""``sonde show DIR --csv``: statistics in the form of MindSpore's ``statistic.csv``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import BinaryIO

import numpy as np

from sonde import kernels
from sonde.core.dtypes import dtype_named
from sonde.core.errors import UsageError
from sonde.core.statistics import CATEGORIES, HASHES, raw_column
from sonde.dump import layout
from sonde.dump.reading.statistic_rows import StatisticRow
from sonde.dump.statistic_store.columns import COLUMN_OF, raw_rows
from sonde.dump.tensor_record import TensorRecord


def write_csv(records: Iterable[TensorRecord], out: BinaryIO) -> None:
    """Write the rows of these tensors, in their order, with a heading that has every statistic of
    the first step. A tensor without a row is left out."""
    rows = ((record.key.step, record.row) for record in records if record.row is not None)
    categories: list[str] = []
    for _, found in groupby(rows, key=lambda each: each[0]):
        step = [row for _, row in found]
        if not categories:
            known = {name for row in step for name in row.values}
            categories = [name for name in CATEGORIES if name in known]
            out.write(layout.statistic_header(categories).encode() + b"\n")
        out.write(_lines(step, categories))
    if not categories:
        raise UsageError("the dump has no statistics of these tensors", slug="no-values")


def _lines(rows: Sequence[StatisticRow], categories: Sequence[str]) -> bytes:
    parts = [
        layout.statistic_row_parts(
            row.op_type,
            row.op_name,
            row.io,
            row.slot,
            row.nbytes,
            dtype_named(row.dtype).label,
            row.shape,
        )
        for row in rows
    ]
    columns = {
        COLUMN_OF[name]: np.array([row.values.get(name, np.nan) for row in rows], np.float64)
        for name in categories
        if name not in HASHES
    }
    return kernels.format_rows(
        [head.encode() for head, _ in parts],
        [f"{tail},".encode() for _, tail in parts],
        np.array([row.timestamp for row in rows], np.int64),
        raw_rows(columns, [row.dtype for row in rows]),
        [raw_column(name) for name in categories],
        [[str(row.values.get(name, "")).encode() for row in rows] for name in HASHES],
    )
