"""File names of one directory, and ``mapping.csv``, which has the full names of short ones."""

from __future__ import annotations

import csv
import io as text_io
from dataclasses import dataclass, field

from sonde.dump.layout import NAME_LIMIT_BYTES


def mapping_line(short: str, full: str) -> str:
    """One line of ``mapping.csv``, with its line end."""
    out = text_io.StringIO()
    # csv does not quote a lone carriage return, and reads it as a line end.
    if "\r" in full:
        csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL).writerow((short, full))
    else:
        csv.writer(out, lineterminator="\n").writerow((short, full))
    return out.getvalue().encode("utf-8", "replace").decode()


def read_mapping(text: str) -> dict[str, str]:
    """Short name to full name. A last line without line end was cut off by a kill: left out."""
    whole = text[: text.rfind("\n") + 1]
    names: dict[str, str] = {}
    try:
        for row in csv.reader(text_io.StringIO(whole, newline=""), strict=True):
            if len(row) == 2:
                names[row[0].strip()] = row[1].strip()
    except csv.Error:
        return names
    return names


@dataclass(frozen=True, slots=True)
class FileName:
    """The name of a file; ``mapping`` is the line that ``mapping.csv`` needs *before* the file."""

    name: str
    mapping: str | None = None


@dataclass(slots=True)
class FileNamer:
    """Assigns the file names of one directory, so that no two ops share a name.

    A name over 255 bytes becomes ``<number>.npy``; so does the file of an op whose name escapes to
    the text of another op. The mapping line has the op's name in full, slashes kept. ``owners``
    maps each text to its op; several directories may share it, so that an op keeps its text in all
    of them. For use from one thread.
    """

    owners: dict[str, str] = field(default_factory=dict)
    _next: int = field(init=False, default=0)

    def tensor(self, op_name: str, head: str, timestamp: int, tail: str) -> FileName:
        """The name of a tensor's file; ``head`` and ``tail`` are from ``layout.name_parts``."""
        name = f"{head}{timestamp}{tail}"
        is_owner = self.owners.setdefault(head, op_name) == op_name
        if is_owner and len(name.encode()) <= NAME_LIMIT_BYTES:
            return FileName(name)
        op_type = head.partition(".")[0]
        return self._number(f"{op_type}.{op_name}.0.0.{timestamp}{tail}")

    def shorten(self, full: str) -> FileName:
        """``full`` itself, or a number if the name is too long for the file system."""
        return FileName(full) if len(full.encode()) <= NAME_LIMIT_BYTES else self._number(full)

    def _number(self, full: str) -> FileName:
        short = f"{self._next}{full[full.rindex('.') :]}"
        self._next += 1
        return FileName(short, mapping_line(short, full))
