"""``sonde loss``: compares two loss curves and reports where and why they diverge."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from sonde.cli.ckpt_files import console, print_line
from sonde.cli.compare_runs import pythons_of, refuse_scripts, run_into
from sonde.cli.json_output import json_file_option, json_option, write_document, write_file
from sonde.cli.loss_plot import plot
from sonde.cli.mindspore_python import python_option
from sonde.compare.losses.compare import (
    DEFAULT_ATOL,
    DEFAULT_RTOL,
    By,
    LossComparison,
    LossSeries,
    compare_losses,
)
from sonde.compare.losses.findings import headline, reasoning
from sonde.compare.losses.picture import to_png
from sonde.compare.losses.report_page import comparison_json, loss_page
from sonde.compare.losses.sources import read_losses
from sonde.compare.weights.listing import number, table
from sonde.core.errors import UsageError
from sonde.core.selection import StepSet, parse_steps
from sonde.core.text.terminal_text import printable
from sonde.logs import say
from sonde.report.links import link_reports

RUN_STEPS = "0-9"
_SHOWN_BEFORE, _SHOWN_AFTER = 2, 5

EPILOG = """\b
Examples:
  sonde loss run_a run_b                            directories of summaries or event files
  sonde loss a.csv b.jsonl --rtol 1e-4 --html loss.html
  sonde loss torch.log mindspore.log                finds 'loss: 0.3' and 'loss is 0.3'
  sonde loss a.log b.log --regex 'it (?P<step>\\d+).*objective=(?P<loss>\\S+)'
  sonde loss sonde_dump mindspore_dump              the losses in two dumps
  sonde loss --run train.py --run train_mindspore.py --python .venv-mindspore

\b
Exit codes: 0 within tolerance, 1 out of tolerance, 2 error.
"""


@click.command(epilog=EPILOG)
@click.argument("sides", nargs=-1, metavar="[A] [B]", type=click.Path(path_type=Path))
@click.option(
    "--run",
    "runs",
    multiple=True,
    metavar="'SCRIPT ARGS'",
    help="Run this script instead of reading losses; runs come before files. It is stopped after "
    f"the last step to compare (default: steps {RUN_STEPS}).",
)
@click.option("--steps", metavar="STEPS", help="With --run: these steps, such as '0-99'.")
@python_option
@click.option(
    "--rtol",
    type=click.FloatRange(min=0),
    default=DEFAULT_RTOL,
    show_default=True,
    help="The relative tolerance, of the larger of two losses.",
)
@click.option(
    "--atol",
    type=click.FloatRange(min=0),
    default=DEFAULT_ATOL,
    show_default=True,
    help="The absolute tolerance, in addition.",
)
@click.option(
    "--tag",
    metavar="NAME",
    multiple=True,
    help="The scalar, column or key of the loss; given twice, the second is for B.",
)
@click.option(
    "--regex",
    metavar="PATTERN",
    multiple=True,
    help="Read logs with this pattern: the loss is the group 'loss', or the first group; 'step' "
    "may be a group, too. Given twice, the second is for B.",
)
@click.option(
    "--by",
    type=click.Choice(["auto", "step", "order"]),
    default="auto",
    show_default=True,
    help="Compare points with equal step numbers, or the n-th points of both.",
)
@click.option("--png", "png_file", metavar="FILE", help="Plot both curves and their error.")
@click.option("--html", "html_file", metavar="FILE", help="Write an HTML report.")
@json_option
@json_file_option
def loss(
    sides: tuple[Path, ...],
    runs: tuple[str, ...],
    steps: str | None,
    python: str | None,
    rtol: float,
    atol: float,
    tag: tuple[str, ...],
    regex: tuple[str, ...],
    by: By,
    png_file: str | None,
    html_file: str | None,
    as_json: bool,
    json_file: str | None,
) -> int:
    """Compare the loss curves A and B: the first step out of tolerance, drift, and the reason.

    A and B: a directory of summaries or TensorBoard events, a dump, CSV, JSON, JSON lines, an event
    file, or a log; instead of one or both, --run runs a script. Two NaN are equal; a NaN and a
    number are out of tolerance.
    """
    if len(tag) > 2 or len(regex) > 2:
        raise UsageError("--tag and --regex can be given at most twice", slug="usage")
    if math.isnan(rtol) or math.isnan(atol):
        raise UsageError("--rtol and --atol must not be NaN", slug="usage")
    _check_sides(sides, runs, steps, python)
    curves = _curves_of_runs(runs, parse_steps(steps or RUN_STEPS), python)
    curves += [
        read_losses(path, tag=_of(tag, side), pattern=_of(regex, side))
        for side, path in enumerate(sides, len(runs))
    ]
    found = compare_losses(*curves, rtol=rtol, atol=atol, by=by)
    if png_file is not None:
        write_file("--png", png_file, to_png(found, "loss of a and b"))
    if html_file is not None:
        write_file("--html", html_file, loss_page(found))
        link_reports(Path(html_file).parent)
    write_document(comparison_json(found), as_json=as_json, json_file=json_file)
    if not as_json:
        _print(console(), found)
    return 0 if found.is_aligned else 1


def _check_sides(
    sides: Sequence[Path], runs: Sequence[str], steps: str | None, python: str | None
) -> None:
    count = len(sides) + len(runs)
    if count != 2:
        raise UsageError(
            f"loss needs two sides, files or --run 'SCRIPT ARGS' (got {count})", slug="usage"
        )
    refuse_scripts("loss", sides)
    for option, text in (("--steps", steps), ("--python", python)):
        if text is not None and not runs:
            raise UsageError(f"{option} needs --run", slug="usage")


def _curves_of_runs(runs: Sequence[str], steps: StepSet, python: str | None) -> list[LossSeries]:
    """Run the scripts, dump their steps, and read the losses of the dumps."""
    pythons = pythons_of(runs, python)
    curves: list[LossSeries] = []
    with tempfile.TemporaryDirectory(prefix="sonde-loss-", ignore_cleanup_errors=True) as place:
        for number, command in enumerate(runs):
            say(f"running {command}")
            directory = Path(place) / "ab"[number]
            dump = run_into(command, directory, steps, python=pythons[number], options=["--stats"])
            curves.append(replace(read_losses(dump), origin=command))
    return curves


def _of(given: tuple[str, ...], side: int) -> str | None:
    return given[min(side, len(given) - 1)] if given else None


def _print(out: Console, found: LossComparison) -> None:
    style = "bold red" if found.first_out is not None else "bold green"
    print_line(out, headline(found), style)
    for line in reasoning(found):
        out.print(line)
    for note in found.notes:
        print_line(out, printable(note), "dim")
    out.print()
    if len(found.steps) > 1:
        out.print(plot(found, min(out.width, 100)))
        out.print()
    out.print(_rows(found))


def _rows(found: LossComparison) -> Any:
    """The steps around the first one out of tolerance, or the first steps."""
    middle = found.first_out or 0
    shown = table(">step", ">a", ">b", ">relative error", "")
    stop = min(len(found.steps), middle + _SHOWN_AFTER)
    for k in range(max(0, middle - _SHOWN_BEFORE), stop):
        shown.add_row(
            str(found.steps[k]),
            f"{found.values_a[k]:.8g}",
            f"{found.values_b[k]:.8g}",
            number(float(found.errors[k])),
            "out" if found.out[k] else "",
            style="red" if found.out[k] else "",
        )
    return shown
