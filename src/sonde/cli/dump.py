"""``sonde dump``: maintains dumps on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sonde.cli.json_output import json_option, print_document
from sonde.core.errors import DumpError, UsageError
from sonde.core.text.number_text import count_text, size_text
from sonde.dump.statistic_store import engine
from sonde.dump.statistic_store.compaction import BUCKET_STEPS, compact, thin_exactly
from sonde.dump.statistic_store.row_writer import BLOCK_STEPS, written_bytes
from sonde.monitor.signal_rows import triggered_steps
from sonde.trends.places import statistic_directories

EPILOG = """\b
Examples:
  sonde dump prune sonde_dump                    sort by op what a killed training has left
  sonde dump prune sonde_dump --keep 2000        thin all but the last 2,000 steps
  sonde dump prune sonde_dump --keep 0 --bucket 1000
"""


@click.group(epilog=EPILOG)
def dump() -> None:
    """Maintain the dumps on disk."""


@dump.command(epilog=EPILOG)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--keep",
    type=click.IntRange(min=0),
    metavar="N",
    help="Keep the last N steps, and those around the first NaN or Inf of an op and around a "
    "guard's triggers, in full; of older ones min, median and max.",
)
@click.option(
    "--bucket",
    type=click.IntRange(min=2, max=1_000_000),
    default=BUCKET_STEPS,
    metavar="K",
    show_default=True,
    help="With --keep: one row of each tensor for K steps.",
)
@json_option
def prune(directory: Path, keep: int | None, bucket: int, as_json: bool) -> None:
    """Make the statistics in DIR smaller, which sonde run --stats has written.

    Files are sorted by op and merged; with --keep older steps are thinned, which cannot be undone.
    The training must have ended.
    """
    if keep is None and bucket != BUCKET_STEPS:
        raise UsageError("--bucket needs --keep", slug="usage")
    found = statistic_directories(directory)
    stores = {rank: path for rank, path in found.items() if written_bytes(path)[0]}
    if not stores:
        raise DumpError(
            f"{directory} has no statistics in Parquet files; there is nothing to prune",
            slug="no-trends",
        )
    connection = engine.connect()
    pruned = []
    for rank, path in stores.items():
        pruned.append({"rank": rank, **_pruned(connection, path, keep, bucket)})
        if not as_json:
            click.echo(_line(pruned[-1]))
    if as_json:
        print_document({"path": str(directory), "ranks": pruned})


def _pruned(connection: Any, path: Path, keep: int | None, bucket: int) -> dict[str, int]:
    """Prune the statistics of one rank; how many files were changed, and the sizes."""
    _, before = written_bytes(path)
    try:
        sorted_files = compact(connection, path, steps=BLOCK_STEPS)
        kept = triggered_steps(connection, path)
        thinned = (
            []
            if keep is None
            else thin_exactly(connection, path, keep, bucket=bucket, triggered=kept)
        )
    except (OSError, engine.failure()) as error:
        reason = str(error).splitlines()[0]
        raise DumpError(f"{path}: cannot be pruned: {reason}", slug="dump-file") from None
    _, after = written_bytes(path)
    return {
        "sorted_files": len(sorted_files),
        "thinned_files": len(thinned),
        "bytes_before": before,
        "bytes_after": after,
    }


def _line(pruned: dict[str, int]) -> str:
    return (
        f"rank {pruned['rank']}: {count_text(pruned['sorted_files'], 'file')} sorted by op, "
        f"{count_text(pruned['thinned_files'], 'file')} thinned; "
        f"{size_text(pruned['bytes_before'])} before, {size_text(pruned['bytes_after'])} now"
    )
