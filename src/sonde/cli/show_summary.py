"""``sonde show`` for a directory of a SummaryCollector."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from sonde.summary.listing import SummaryListing


def print_summary(directory: Path, listing: SummaryListing, console: Console) -> None:
    """Print scalars with their last value, then the other entries and their sizes."""
    console.print(
        f"{directory}: a summary, {listing.status}, step {listing.step}",
        style="bold",
        soft_wrap=True,
    )
    if listing.scalars:
        console.print(_scalars(listing))
    for name, tags in (
        ("histograms", listing.histograms),
        ("images", listing.images),
        ("texts", listing.texts),
    ):
        if tags:
            console.print(f"{name}: {', '.join(tags)}", highlight=False, soft_wrap=True)
    if listing.graph:
        console.print(f"graph: {listing.graph}", highlight=False, soft_wrap=True)
    console.print(
        f"{len(listing.files)} event files, {listing.size / 1e6:.2f} MB; "
        f"view them with tensorboard --logdir {directory}",
        highlight=False,
        soft_wrap=True,
    )


def _scalars(listing: SummaryListing) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("scalar", "points", "last step", "last value", "min", "max"):
        table.add_column(title, justify="left" if title == "scalar" else "right")
    for name, tag in listing.scalars.items():
        table.add_row(
            name,
            str(tag.count),
            str(tag.last_step),
            *(f"{value:.5g}" for value in (tag.last, tag.minimum, tag.maximum)),
        )
    return table
