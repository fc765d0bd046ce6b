"""The two csv files of ``execution_order/``: the ops of a graph, and the steps it ran in."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Final

HEADER: Final = "NodeExecutionOrder-FullNameWithScope"


def write_node_order(names: Iterable[str]) -> str:
    """The ops of a graph by full name, as they ran, under a header."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow([HEADER])
    rows.writerows([name] for name in names)
    return out.getvalue()


def read_node_order(text: str) -> tuple[str, ...]:
    """The names in a node order file. MindSpore writes the last line without a line end."""
    try:
        rows = [row[0].strip() for row in csv.reader(io.StringIO(text, newline="")) if row]
    except csv.Error:
        rows = [line.strip() for line in text.splitlines()]
    return tuple(name for name in rows if name and name != HEADER)


def write_steps(steps: Iterable[int]) -> str:
    """The steps a graph ran in, one a line, without header."""
    return "".join(f"{step}\n" for step in steps)
