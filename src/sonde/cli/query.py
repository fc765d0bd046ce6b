"""``sonde query``: asks the statistics of all steps of a run with SQL."""

from __future__ import annotations

import csv
import datetime
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from sonde.cli.json_output import json_option, print_document
from sonde.cli.show_text import Page
from sonde.core.errors import UsageError
from sonde.core.text.number_text import count_text, number_text, percent, size_text
from sonde.trends.database import ResultTable, TrendDatabase
from sonde.trends.views import DESCRIPTIONS

_DEFAULT_LIMIT = 100
_LISTED = ("tensors", "ops")
"""The tables whose columns are listed."""
_PLAIN = frozenset({"rank", "step", "since", "slot", "graph", "id"})
"""Columns of whole numbers that are names, not amounts."""

EPILOG = """\b
Examples:
  sonde query sonde_dump                                   the tables and their columns
  sonde query sonde_dump "from first_nonfinite"
  sonde query sonde_dump "from series('fc1-Linear/addmm-op0', 'l2norm') where io = 'output'"
  sonde query sonde_dump "from growth(100) where phase = 'backward' limit 10"
  sonde query sonde_dump "from layers(500)" --csv > layers.csv
  sonde query sonde_dump "select step, max(abs(max)) from tensors group by step" --json
"""


@click.command(epilog=EPILOG)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.argument("sql", metavar="[SQL]", required=False)
@click.option("--csv", "as_csv", is_flag=True, help="Print the result as CSV.")
@json_option
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    metavar="N",
    help=f"Show at most N rows, 0 for all. Default: {_DEFAULT_LIMIT}; with --csv and --json all.",
)
def query(directory: Path, sql: str | None, as_csv: bool, as_json: bool, limit: int | None) -> None:
    """Ask the statistics that sonde run --stats has written to DIR, of all steps, with SQL.

    The training may still be running. SQL is that of DuckDB; there are ready views and functions
    for common questions (docs/query.md). Without SQL: lists the tables and their columns.
    """
    if as_csv and as_json:
        raise UsageError("--csv and --json exclude each other; give one of them", slug="usage")
    database = TrendDatabase(directory)
    if sql is None:
        if as_json:
            print_document(_tables_json(database))
        else:
            _print_tables(database)
        return
    found = database.query(sql)
    rows = found.rows if not limit else found.rows[:limit]
    if as_csv:
        writer = csv.writer(sys.stdout)
        writer.writerow(found.columns)
        writer.writerows(rows)
    elif as_json:
        objects = [dict(zip(found.columns, map(_json, row), strict=True)) for row in rows]
        print_document(objects)
    else:
        _print_table(found, _DEFAULT_LIMIT if limit is None else limit)


def _tables_json(database: TrendDatabase) -> dict[str, Any]:
    first, last = database.steps()
    return {
        "path": str(database.path),
        "first_step": first,
        "last_step": last,
        "ranks": list(database.ranks),
        "tables": dict(DESCRIPTIONS),
        "columns": {name: _columns(database, name) for name in _LISTED},
    }


def _columns(database: TrendDatabase, table: str) -> list[str]:
    return list(database.query(f"from {table} limit 0").columns)


def _print_tables(database: TrendDatabase) -> None:
    console = Page.on(sys.stdout).console
    first, last = database.steps()
    ranks = count_text(len(database.ranks), "rank")
    console.print(f"{database.path}: steps {first} to {last}, {ranks}", style="bold")
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in DESCRIPTIONS.items():
        table.add_row(name, text)
    console.print(table)
    for name in _LISTED:
        console.print(f"\ncolumns of {name}: {', '.join(_columns(database, name))}")


def _print_table(found: ResultTable, limit: int) -> None:
    console = Page.on(sys.stdout).console
    rows = found.rows if not limit else found.rows[:limit]
    table = Table(box=None, pad_edge=False, header_style="dim")
    for number, name in enumerate(found.columns):
        is_number = any(isinstance(row[number], int | float | Decimal) for row in rows)
        table.add_column(name, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(
            *(_shown(name, value) for name, value in zip(found.columns, row, strict=True))
        )
    console.print(table)
    if len(rows) < len(found.rows):
        console.print(f"and {count_text(len(found.rows) - len(rows), 'more row')}; --limit 0: all")
    elif not rows:
        console.print("no rows")


def _shown(name: str, value: Any) -> str:
    """A value with its unit: sizes, shares, amounts, local times."""
    if isinstance(value, bool) or value is None:
        return "" if value is None else str(value)
    if isinstance(value, int):
        if name == "bytes" or name.endswith("_bytes"):
            return size_text(value)
        return str(value) if name in _PLAIN else f"{value:,}"
    if isinstance(value, float | Decimal):
        value = float(value)
        return percent(value) if name.endswith("_fraction") else number_text(value)
    if isinstance(value, datetime.datetime):
        local = value.replace(tzinfo=datetime.UTC).astimezone()
        return local.strftime("%Y-%m-%d %H:%M:%S")
    return str(value)


def _json(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    return value if isinstance(value, int | float | str | None) else str(value)
