"""Reads the signals that a guarded training has kept, while it runs or after it was killed."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sonde.core.errors import UsageError
from sonde.monitor.ring import ring_path
from sonde.monitor.ring_format import HEAD_BYTES, SignalsError, header_bytes, parse_header

_NAME: Final = re.compile(r"signals\.rank_(\d+)\.ring$")


@dataclass(frozen=True, slots=True)
class SignalTable:
    """The signals of the last steps of one rank, oldest first.

    ``signals["loss"]`` is the column ``loss`` as a numpy array; ``columns`` has all.
    ``gradients[i, j]`` is the norm of the gradient of parameter ``parameters[j]`` in row ``i``.
    ``damaged`` is the number of rows that cannot be read: at most the one that was being written
    when the process was killed.
    """

    path: Path
    rank: int
    columns: Mapping[str, npt.NDArray[Any]]
    parameters: tuple[str, ...]
    gradients: npt.NDArray[np.float32]
    damaged: int = 0

    def __len__(self) -> int:
        return len(self.gradients)

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        if name in self.columns:
            return self.columns[name]
        if name in self.parameters:
            return self.gradients[:, self.parameters.index(name)]
        raise KeyError(
            f"{name!r} is neither a signal ({', '.join(self.columns)}) nor a parameter of this run"
        )

    def to_pandas(self) -> Any:
        """A DataFrame with one row for each step: the signals, then ``grad_norm/NAME`` for each
        parameter. Needs pandas."""
        try:
            pandas: Any = import_module("pandas")
        except ModuleNotFoundError:
            raise UsageError(
                "to_pandas needs pandas; pip install pandas", slug="pandas-missing"
            ) from None
        found = {name: np.asarray(column) for name, column in self.columns.items()}
        for number, name in enumerate(self.parameters):
            found[f"grad_norm/{name}"] = self.gradients[:, number]
        return pandas.DataFrame(found)


def ranks_in(directory: Path) -> tuple[int, ...]:
    """The ranks whose signals are in the directory."""
    if not directory.is_dir():
        return ()
    found = (_NAME.match(each.name) for each in directory.iterdir())
    return tuple(sorted(int(match[1]) for match in found if match))


def read_signals(directory: Path, rank: int | None = None) -> SignalTable:
    """The signals of a rank; of the lowest that is there without ``rank``."""
    if directory.is_file():
        return read_ring(directory)
    ranks = ranks_in(directory)
    if not ranks:
        why = "has no signals" if directory.is_dir() else "is not there"
        raise SignalsError(
            f"{directory} {why}; sonde run --guard writes them to ./sonde_steps",
            slug="signals-missing",
        )
    if rank is not None and rank not in ranks:
        raise SignalsError(
            f"{directory} has no signals of rank {rank}; its ranks are "
            f"{', '.join(map(str, ranks))}",
            slug="signals-missing",
        )
    return read_ring(ring_path(directory, ranks[0] if rank is None else rank))


def read_ring(path: Path) -> SignalTable:
    """The rows of one file."""
    if not path.is_file():  # Opening a pipe would wait for a writer.
        raise SignalsError(f"{path} cannot be read: it is not a file", slug="signals-file")
    try:
        with open(path, "rb") as file:
            head = file.read(HEAD_BYTES)
            head += file.read(max(header_bytes(head) - len(head), 0))
            size = file.seek(0, 2)
            layout, start = parse_header(head, size, path)
            file.seek(start)
            data = file.read(layout.rows * layout.row_type.itemsize)
    except OSError as error:
        raise SignalsError(
            f"{path} cannot be read: {error.strerror}", slug="signals-file"
        ) from None
    if len(data) < layout.rows * layout.row_type.itemsize:
        raise SignalsError(f"{path} was cut off while it was read", slug="signals-file")
    rows = np.frombuffer(data, layout.row_type)
    width = layout.row_type.itemsize
    written = np.flatnonzero(rows["sequence"])
    whole = [
        index
        for index in written
        if zlib.crc32(data[index * width : (index + 1) * width - 4]) == rows["crc"][index]
    ]
    kept = rows[whole]
    kept = kept[np.argsort(kept["sequence"], kind="stable")]
    columns: dict[str, npt.NDArray[Any]] = {}
    for number, name in enumerate(layout.columns):
        column = np.ascontiguousarray(kept["numbers"][:, number])
        columns[name] = column.astype(np.int64) if name in _WHOLE else column
    columns["batch_hash"] = np.ascontiguousarray(kept["batch_hash"])
    return SignalTable(
        path,
        layout.rank,
        columns,
        layout.parameters,
        np.ascontiguousarray(kept["gradients"]).reshape(len(kept), len(layout.parameters)),
        len(written) - len(whole),
    )


_WHOLE: Final = frozenset(
    {
        "step",
        "optimizer",
        "micro_batches",
        "is_skipped",
        "triggers",
        "non_finite_gradients",
        "non_finite_weights",
    }
)
