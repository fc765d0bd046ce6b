"""``sonde show`` for the directory of a search by ``sonde tune``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sonde.cli.tune_text import (
    STYLES,
    add_trial_columns,
    cell_text,
    counts_text,
    print_best,
    print_origins,
)
from sonde.core.text.number_text import long_duration, number_text
from sonde.tune.store.listing import ListedTrial, StudyListing, read_study

DEFAULT_LIMIT = 20
_LEAST_REASON_WIDTH = 24


def study_json(directory: Path) -> dict[str, Any]:
    """The listing as JSON."""
    return read_study(directory).as_dict()


def print_study(directory: Path, console: Console, limit: int | None) -> None:
    """Print the best trial, importances, why trials diverged, and the best trials (0: all)."""
    listing = read_study(directory)
    console.print(Text(_headline(directory, listing), "bold"), soft_wrap=True)
    print_origins(listing, console)
    print_best(listing, console)
    ranked = _ranked(listing)
    shown = ranked[: (DEFAULT_LIMIT if limit is None else limit) or None]
    if shown:
        console.print(_table(listing, shown, console.width))
    if len(shown) < len(ranked):
        console.print(f"and {len(ranked) - len(shown):,} more trials; --limit 0 shows all")
    page = directory / "report.html"
    if page.is_file():
        console.print(Text(f"{page} draws them", "dim"), soft_wrap=True)


def _headline(directory: Path, listing: StudyListing) -> str:
    counts = counts_text(listing) or "no trials yet"
    return f"{directory}: a search to {listing.goal} {listing.target}: {counts}"


def _ranked(listing: StudyListing) -> list[ListedTrial]:
    """Sort trials: the best first; those without a value last, in the order they ran."""
    sign = -1.0 if listing.goal == "maximize" else 1.0
    return sorted(
        listing.trials,
        key=lambda one: (one.value is None, sign * (one.value or 0.0), one.number),
    )


def _table(listing: StudyListing, trials: Sequence[ListedTrial], width: int) -> Table:
    names = [one.name for one in listing.parameters]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    rows = {name: [cell_text(one.parameters, name) for one in trials] for name in names}
    taken = add_trial_columns(table, "state", listing.target, rows, width)
    has_reasons = any(one.reason for one in trials) and width - taken >= _LEAST_REASON_WIDTH
    if has_reasons:
        table.add_column("why", overflow="fold")
    for one in trials:
        values = one.parameters
        table.add_row(
            str(one.number),
            Text(one.state, STYLES.get(one.state, "")),
            number_text(one.value, 6),
            *(cell_text(values, name) for name in names),
            "" if one.seconds is None else long_duration(one.seconds),
            *([Text(one.reason, "dim")] if has_reasons else []),
        )
    return table
