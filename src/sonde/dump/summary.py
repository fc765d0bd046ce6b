"""Statistics of the tensors and sizes of the steps of a dump, for display."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from sonde.core.errors import DumpError
from sonde.dump import layout
from sonde.dump.reading.directories import StepDir
from sonde.dump.reading.statistic_rows import Number
from sonde.dump.tensor_record import TensorRecord

COMPUTED = (
    "count",
    "max",
    "min",
    "avg",
    "std",
    "l2norm",
    "nan count",
    "positive inf count",
    "negative inf count",
    "zero count",
    "finite max",
    "finite min",
)


@dataclass(frozen=True, slots=True)
class TensorSummary:
    """Statistics by the names of ``statistic_category``; ``problem`` says why there are none.

    Computed from the values where the dump has them, else those of ``statistic.csv``. Complex
    tensors have none.
    """

    values: dict[str, Number]
    problem: str | None = None


def summarize(record: TensorRecord) -> TensorSummary:
    values: dict[str, Number] = dict(record.row.values) if record.row is not None else {}
    if record.file_name is None:
        return TensorSummary(values)
    try:
        if record.header.dtype.startswith("complex"):
            return TensorSummary(values)
        found = record.statistics()
    except DumpError as error:
        return TensorSummary(values, error.message.removeprefix(f"{record.path}: "))
    for name in COMPUTED:
        number = getattr(found, name.replace(" ", "_"))
        if number is not None:
            values[name] = number
    return TensorSummary(values)


@dataclass(frozen=True, slots=True)
class StepSummary:
    """Counts and sizes of a step directory; ``nbytes`` counts a file with several names once."""

    step: StepDir
    tensors: int
    nbytes: int


def summarize_step(step: StepDir, known: int | None = None) -> StepSummary:
    """Counts and sizes; opens no file except the ``statistic.csv`` of a step without tensors.

    ``known``: the number of tensors, where the names of files do not tell it.
    """
    stored = step.stored
    tensors = nbytes = 0
    seen: set[int] = set()
    try:
        with os.scandir(step.path) as entries:
            for entry in entries:
                if layout.is_partial(entry.name):
                    continue
                status = entry.stat(follow_symlinks=False)
                if status.st_nlink == 1 or status.st_ino not in seen:
                    nbytes += status.st_size
                    seen.add(status.st_ino)
                if entry.name.endswith(".npy"):
                    tensors += 1
    except OSError:
        if stored is not None:
            return StepSummary(step, known or stored.rows, stored.nbytes)
        return StepSummary(step, known or tensors, nbytes)
    nbytes += 0 if stored is None else stored.nbytes
    if known is not None:
        return StepSummary(step, known, nbytes)
    if not tensors:
        tensors = max(_count_lines(step.path / layout.STATISTIC) - 1, 0)
    return StepSummary(step, tensors, nbytes)


def _count_lines(path: Path) -> int:
    try:
        with path.open("rb") as file:
            return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
    except OSError:
        return 0
