"""The parameters of a network as a table of text; the parts of which such tables are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

from sonde.compare.weights.table import ParameterRow
from sonde.core.text.number_text import number_text
from sonde.core.text.terminal_text import printable

WIDE = 110
"""A terminal with at least this many columns shows additional columns of numbers."""

_FOLDED_WIDTH = 14
_TRAINED = {True: "yes", False: "no", None: "?"}


def parameter_table(rows: Mapping[str, ParameterRow], *, is_wide: bool) -> Table:
    """Every parameter with its type, shape and statistics."""
    odd = any(_oddities(row) for row in rows.values())
    titles = ["~parameter", "dtype", "shape", *([">count"] if is_wide else []), "train"]
    shown = table(*titles, ">min", ">max", ">mean", ">std", *([""] if odd else []))
    for name, row in rows.items():
        shown.add_row(
            cell(name),
            row.weight.dtype,
            shape_text(row.weight.shape),
            *([f"{row.weight.count:,}"] if is_wide else []),
            _TRAINED[row.trainable],
            *(number(row.numbers.get(key)) for key in ("min", "max", "avg", "std")),
            *([cell(_oddities(row), "bold red")] if odd else []),
        )
    return shown


def totals(rows: Mapping[str, ParameterRow]) -> dict[str, int]:
    """Parameters and elements, without the state of the optimizer."""
    own = [row for row in rows.values() if row.role != "state"]
    trained = [row for row in own if row.trainable]
    return {
        "count": len(own),
        "trainable": len(trained),
        "elements": sum(row.weight.count for row in own),
        "trainable_elements": sum(row.weight.count for row in trained),
    }


def totals_text(name: str, rows: Mapping[str, ParameterRow]) -> str:
    """The line below a table; ``name`` is that of the file or the network."""
    found = totals(rows)
    return (
        f"{printable(name)}: {found['count']} parameters with "
        f"{found['elements']:,} elements, {found['trainable']} of them trainable with "
        f"{found['trainable_elements']:,}"
    )


def number(value: float | int | None) -> str:
    return f"{value:,}" if isinstance(value, int) else number_text(value, 3)


def shape_text(shape: Sequence[int]) -> str:
    return f"[{','.join(map(str, shape))}]"


def table(*titles: str) -> Table:
    """A plain table: ``>`` before a title makes a column of numbers, ``~`` one that may fold."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for title in titles:
        made.add_column(
            title.lstrip(">~"),
            justify="right" if title[:1] == ">" else "left",
            overflow="fold",
            no_wrap=title[:1] != "~",
            min_width=_FOLDED_WIDTH if title[:1] == "~" else None,
        )
    return made


def cell(text: str, style: str = "") -> Text:
    return Text(printable(text), style)


def _oddities(row: ParameterRow) -> str:
    found = row.numbers
    return " ".join(
        f"{found[key]:,} {key.partition(' ')[0]}"
        for key in ("nan count", "inf count")
        if found.get(key)
    )
