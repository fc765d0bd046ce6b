"""The op table: what the numbers of ops in the rows stand for.

An entry is one tensor of one op with one shape and dtype; an op whose shapes vary has several.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from sonde.core.graph import GRADIENTS, OpNode
from sonde.core.sink import TensorView
from sonde.dump.layout import shape_text
from sonde.dump.statistic_store.files import Form, StoreFile, store_file, write_file

_MOST_FILES = 16


@dataclass(frozen=True, slots=True)
class OpEntry:
    """A row of the op table. ``layer`` is the module, forward and backward; ``line`` the place in
    the user's code; ``count`` the number of elements, ``bytes`` their size in memory."""

    id: int
    name: str
    type: str
    kind: str
    scope: str
    layer: str
    phase: str
    line: str
    io: str
    slot: int
    shape: str
    dtype: str
    count: int
    bytes: int


OP_COLUMNS = tuple(field.name for field in fields(OpEntry))


def layer_of(scope: str) -> str:
    """The module of a scope: ``fc1-Linear`` for the scopes of its forward and backward ops."""
    return scope.removeprefix(GRADIENTS).removeprefix("Default/").removeprefix("Default")


def op_entry(number: int, node: OpNode, view: TensorView) -> OpEntry:
    source = node.source
    return OpEntry(
        number,
        node.name,
        node.type,
        node.kind,
        node.scope,
        layer_of(node.scope),
        node.phase,
        "" if source is None else f"{source.file}:{source.line}",
        view.io,
        view.slot,
        shape_text(view.shape),
        view.dtype,
        prod(view.shape),
        view.nbytes,
    )


class OpTable:
    """Numbers entries in the order in which they appear, and writes those that are new.

    ``number`` is called by the training thread, ``write_new`` by the thread that writes rows, which
    sees every entry that a row it has been handed refers to: lists grow at their end only.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._entries: list[OpEntry] = []
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._written = 0
        self._files: list[StoreFile] = []

    def number(self, node: OpNode, view: TensorView) -> int:
        """The number of a tensor of an op; a new one if it has none."""
        key = (node.name, node.type, view.io, view.slot, view.shape, view.dtype)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self._entries)
            self._entries.append(op_entry(found, node, view))
        return found

    def add(self, entry: OpEntry) -> int:
        """Add an entry that is not a tensor of an op; the number that it gets."""
        number = len(self._entries)
        self._entries.append(replace(entry, id=number))
        return number

    def write_new(self, connection: Any) -> int:
        """Write the entries since the last call; the bytes written."""
        end = len(self._entries)
        if end == self._written:
            return 0
        first = self._written if len(self._files) < _MOST_FILES else 0
        form: Form = "piece" if first or not self._files else "merged"
        file = store_file(self._directory, "ops", first, end - 1, form)
        _write(connection, self._entries[first:end], file)
        if first == 0:
            for old in self._files:
                if file.replaces(old):
                    old.path.unlink(missing_ok=True)
            self._files = []
        self._files.append(file)
        self._written = end
        return file.path.stat().st_size


def _write(connection: Any, entries: Sequence[OpEntry], file: StoreFile) -> None:
    columns: dict[str, Any] = {
        name: np.array([getattr(each, name) for each in entries], _kind(name))
        for name in OP_COLUMNS
    }
    connection.register("new_ops", columns)
    try:
        write_file(connection, "select * from new_ops order by id", file)
    finally:
        connection.unregister("new_ops")


def _kind(name: str) -> type:
    if name in ("id", "slot"):
        return np.int32
    return np.int64 if name in ("count", "bytes") else object
