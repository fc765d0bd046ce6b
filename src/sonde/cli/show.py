"""``sonde show``: shows the contents of a dump, as text or as JSON."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from sonde.cli.json_output import json_option, print_document
from sonde.cli.own_option import own_option
from sonde.cli.show_captured import captured_lines
from sonde.cli.show_csv import write_csv
from sonde.cli.show_format import steps_text
from sonde.cli.show_json import dump_json, summarized_steps, tensors_json
from sonde.cli.show_steps import guard_json, is_guarded, print_guard
from sonde.cli.show_text import Listed, Page
from sonde.cli.show_trend import print_trend, trend_json
from sonde.cli.terminal import Terminal
from sonde.core.errors import UsageError
from sonde.core.keys import Io
from sonde.core.operators.patterns import OpPattern
from sonde.core.operators.suggestions import suggestion
from sonde.core.selection import StepSet, parse_steps
from sonde.core.text.terminal_text import quoted
from sonde.dump.reader import Dump
from sonde.dump.summary import summarize
from sonde.dump.tensor_record import TensorRecord
from sonde.summary.listing import SummaryListing, is_summary, read_summary
from sonde.trends.views import LAYER_STATISTICS
from sonde.tune.store.listing import is_study

_DEFAULT_LIMIT = 100

EPILOG = """\b
Examples:
  sonde show out                              graphs, steps, ops, sizes
  sonde show out --step 5                     every tensor of step 5, in the order the ops ran
  sonde show out --op conv --io output        outputs of all convolutions
  sonde show out --op 'name-regex(Gradients/.*fc1.*)' --step '0|5-8'
  sonde show out --op softmax --step 3 --values
  sonde show out --trend grad_norm            each layer over the steps, greatest change first
  sonde show out --csv > statistic.csv        statistics in MindSpore's form
  sonde show out --step 5 --json | jq '.tensors[] | select(.statistics."nan count" > 0) | .op'
"""


@click.command(epilog=EPILOG)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--op",
    metavar="PATTERN",
    help="Tensors of these ops: a full name, a module (fc1) or module class (Linear), an operator "
    "(Conv2D, relu), part of an op type (conv), 'name-regex(.*fc1.*)': docs/patterns.md.",
)
@click.option("--step", metavar="STEPS", help="Tensors of these steps, such as 5 or '0|5-8'.")
@click.option("--rank", type=int, metavar="N", help="Only this rank.")
@click.option("--io", type=click.Choice(["input", "output"]), help="Only inputs or only outputs.")
@click.option("--values", is_flag=True, help="Also print the values, shortened.")
@click.option(
    "--index",
    metavar="INDEX",
    help="With --values: only these elements, such as '[0, :, 3:5]'.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    metavar="N",
    help=f"Show at most N tensors, 0 for all. Default: {_DEFAULT_LIMIT}; with --json all.",
)
@json_option
@click.option(
    "--csv",
    "as_csv",
    is_flag=True,
    help="Print the statistics of the tensors as MindSpore's statistic.csv has them.",
)
@click.option(
    "--trend",
    metavar="STATISTIC",
    help=f"Show a statistic of every layer over the steps: {', '.join(LAYER_STATISTICS)}.",
)
@own_option
def show(
    directory: Path,
    op: str | None,
    step: str | None,
    rank: int | None,
    io: Io | None,
    values: bool,
    index: str | None,
    limit: int | None,
    as_json: bool,
    as_csv: bool,
    trend: str | None,
) -> None:
    """Show the contents of the dump in DIR, written by Sonde, MindSpore or msprobe.

    Without options: its graphs, steps, ops and sizes, and, for an overflow dump, where NaN or Inf
    first appeared. With --op, --step or --io: tensors with shape, dtype and statistics, in
    execution order, each op with its line in your code. DIR may also be a directory of sonde run
    --guard, of a SummaryCollector or of sonde tune, or a checkpoint file (see sonde params).
    """
    if trend is not None:
        selected = {"--op": op, "--step": step, "--io": io, "--values": values, "--csv": as_csv}
        _show_trend(directory, trend, rank, limit, selected, as_json=as_json)
        return
    if index is not None and not values:
        raise UsageError("--index needs --values", slug="usage")
    if as_csv:
        _refuse_beside("--csv", {"--json": as_json, "--values": values})
    if not as_csv and _show_other(directory, rank, limit, as_json=as_json):
        return
    dump = Dump(directory)
    page = Page.on(sys.stdout)
    if op is None and step is None and io is None and not values and not as_csv:
        _show_overview(dump, rank, page, as_json=as_json)
        return
    if why := dump.why_no_values(rank):
        raise UsageError(f"{directory}: {why}: no values to show", slug="no-values")
    steps = _checked_steps(dump, step, rank)
    pattern = None if op is None else _pattern(dump, op, steps, rank)
    records = dump.tensors(step=steps, op=pattern, io=io, rank=rank)
    if as_csv:
        write_csv(itertools.islice(records, limit or None), sys.stdout.buffer)
        return
    if limit is None:
        limit = 0 if as_json else _DEFAULT_LIMIT
    elements = (index or "") if values else None
    _show_tensors(dump, records, limit, elements, page, as_json=as_json)


def _show_tensors(
    dump: Dump,
    records: Iterator[TensorRecord],
    limit: int,
    elements: str | None,
    page: Page,
    *,
    as_json: bool,
) -> None:
    shown = list(itertools.islice(records, limit or None))
    more = sum(1 for _ in records)
    if as_json:
        print_document(tensors_json(dump, shown, more, elements))
    else:
        page.tensors((Listed(record, summarize(record)) for record in shown), index=elements)
        page.more(more, dump.problems)


def _refuse_beside(option: str, others: Mapping[str, object]) -> None:
    given = next((name for name, value in others.items() if value), None)
    if given is not None:
        raise UsageError(f"{option} cannot be combined with {given}", slug="usage")


def _show_trend(
    directory: Path,
    statistic: str,
    rank: int | None,
    limit: int | None,
    selected: Mapping[str, object],
    *,
    as_json: bool,
) -> None:
    _refuse_beside("--trend", selected)
    if as_json:
        print_document(trend_json(directory, statistic, rank))
    else:
        print_trend(directory, statistic, rank, limit)


def _show_other(path: Path, rank: int | None, limit: int | None, *, as_json: bool) -> bool:
    """Show a checkpoint, a search, a summary, or what a guard kept; False if it is none of them."""
    if path.is_file():
        from sonde.cli.ckpt_files import load
        from sonde.cli.params import show_checkpoint

        show_checkpoint(load(path), as_json=as_json)
    elif is_study(path):
        from sonde.cli.show_study import print_study, study_json  # Optuna is slow to import

        if as_json:
            print_document(study_json(path))
        else:
            print_study(path, Terminal(), limit)
    elif is_guarded(path):
        if as_json:
            print_document(guard_json(path, rank))
        else:
            print_guard(path, rank, Terminal(highlight=False), limit)
    elif is_summary(path):
        listing = read_summary(path)
        if as_json:
            print_document(listing.as_dict())
        else:
            _print_summary(path, listing, Terminal(highlight=False))
    else:
        return False
    return True


def _print_summary(directory: Path, listing: SummaryListing, console: Console) -> None:
    """Print scalars with their last value, then the other entries and their sizes."""
    console.print(
        f"{directory}: a summary, {listing.status}, step {listing.step}",
        style="bold",
        soft_wrap=True,
    )
    if listing.scalars:
        console.print(_scalar_table(listing))
    for name, tags in (
        ("histograms", listing.histograms),
        ("images", listing.images),
        ("texts", listing.texts),
    ):
        if tags:
            console.print(f"{name}: {', '.join(tags)}", soft_wrap=True)
    if listing.graph:
        console.print(f"graph: {listing.graph}", soft_wrap=True)
    console.print(
        f"{len(listing.files)} event files, {listing.size / 1e6:.2f} MB; "
        f"view them with tensorboard --logdir {directory}",
        soft_wrap=True,
    )


def _scalar_table(listing: SummaryListing) -> Table:
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


def _checked_steps(dump: Dump, text: str | None, rank: int | None) -> StepSet | None:
    dumped = dump.steps(rank=rank)
    if text is None:
        return None
    steps = parse_steps(text)
    if not any(step in steps for step in dumped):
        there = steps_text(dumped)
        raise UsageError(f"step {text} is not in the dump; its steps are {there}", slug="usage")
    return steps


def _pattern(dump: Dump, text: str, steps: StepSet | None, rank: int | None) -> OpPattern:
    """The pattern; UsageError if it matches no op."""
    pattern = OpPattern.parse(text)
    ops = dump.named_ops(step=steps, rank=rank)
    if not ops:
        raise UsageError("the dump has no tensors of these steps", slug="no-values")
    if not any(pattern.matches(*op) for op in ops):
        hint = suggestion(pattern, ops) or "; 'sonde show DIR' lists the types there are"
        raise UsageError(f"{quoted(text)} matches no op in the dump{hint}", slug="usage")
    return pattern


def _show_overview(dump: Dump, rank: int | None, page: Page, *, as_json: bool) -> None:
    if as_json:
        print_document(dump_json(dump, rank))
    elif captured := dump.captured(rank):
        page.lines(captured_lines(dump, captured))
    else:
        page.overview(dump, rank, summarized_steps(dump, rank), list(dump.overflow(rank=rank)))
