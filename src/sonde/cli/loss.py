"""``sonde loss``: two loss curves, where they part, and what that says."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from sonde.cli.ckpt_files import console, number, safe, table, write_json
from sonde.cli.loss_plot import plot
from sonde.compare.loss_advice import headline, reasoning
from sonde.compare.loss_pages import to_html, to_png
from sonde.compare.loss_picture import draw
from sonde.compare.loss_sources import read_losses
from sonde.compare.losses import DEFAULT_ATOL, DEFAULT_RTOL, By, LossComparison, compare_losses
from sonde.core.errors import UsageError

_SHOWN_BEFORE, _SHOWN_AFTER = 2, 5

EPILOG = """\b
Examples:
  sonde loss run_a run_b                            directories of summaries or event files
  sonde loss a.csv b.jsonl --rtol 1e-4 --html loss.html
  sonde loss torch.log mindspore.log                finds 'loss: 0.3' and 'loss is 0.3'
  sonde loss a.log b.log --regex 'it (?P<step>\\d+).*objective=(?P<loss>\\S+)'
  sonde loss sonde_dump mindspore_dump              the losses in two dumps

\b
Exit codes: 0 within tolerance, 1 out of it, 2 a mistake.
"""


@click.command(
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@click.option(
    "--rtol",
    type=click.FloatRange(min=0),
    default=DEFAULT_RTOL,
    show_default=True,
    help="The relative error that is allowed, of the larger of two losses.",
)
@click.option(
    "--atol",
    type=click.FloatRange(min=0),
    default=DEFAULT_ATOL,
    show_default=True,
    help="The absolute error that is allowed besides.",
)
@click.option(
    "--tag",
    metavar="NAME",
    multiple=True,
    help="The scalar, column or key that is the loss; given twice, the second is for B.",
)
@click.option(
    "--regex",
    metavar="PATTERN",
    multiple=True,
    help="Read logs: the loss is the group 'loss', or the first; 'step' may be a group, too. "
    "Given twice, the second is for B.",
)
@click.option(
    "--by",
    type=click.Choice(["auto", "step", "order"]),
    default="auto",
    show_default=True,
    help="Compare equal step numbers, or the n-th points of both.",
)
@click.option("--png", "png_file", metavar="FILE", help="Draw both curves and their error.")
@click.option("--html", "html_file", metavar="FILE", help="Write a page with all of it.")
@click.option("--json", "json_file", metavar="FILE", help="Write JSON to FILE, or - for here.")
def loss(
    a: Path,
    b: Path,
    rtol: float,
    atol: float,
    tag: tuple[str, ...],
    regex: tuple[str, ...],
    by: By,
    png_file: str | None,
    html_file: str | None,
    json_file: str | None,
) -> int:
    """Compare the loss curves A and B: the first step out of tolerance, drift, and the reason.

    A and B: a directory of summaries or TensorBoard events, a dump, CSV, JSON, JSON lines, an event
    file, or a log. A NaN equals a NaN; a NaN against a number is out of tolerance.
    """
    if len(tag) > 2 or len(regex) > 2:
        raise UsageError("--tag and --regex are given once, or once for each side", slug="usage")
    if math.isnan(rtol) or math.isnan(atol):
        raise UsageError("--rtol and --atol are numbers, not nan", slug="usage")
    curves = [
        read_losses(path, tag=_of(tag, side), pattern=_of(regex, side))
        for side, path in enumerate((a, b))
    ]
    found = compare_losses(*curves, rtol=rtol, atol=atol, by=by)
    if png_file is not None:
        _write(png_file, "--png", to_png(draw(found, "loss of a and b")))
    if html_file is not None:
        _write(html_file, "--html", to_html(found).encode())
    if json_file is not None:
        write_json(json_file, comparison_json(found))
    if json_file != "-":
        _print(console(), found)
    return 0 if found.is_aligned else 1


def _of(given: tuple[str, ...], side: int) -> str | None:
    return given[min(side, len(given) - 1)] if given else None


def _write(file: str, option: str, data: bytes) -> None:
    partial = Path(f"{file}.{os.getpid()}.partial")
    try:
        partial.write_bytes(data)
        os.replace(partial, file)
    except OSError as error:
        raise UsageError(
            f"{option} {file} cannot be written: {error.strerror}", slug="usage"
        ) from None


def _print(out: Console, found: LossComparison) -> None:
    style = "bold red" if found.first_out is not None else "bold green"
    out.print(headline(found), style=style, soft_wrap=True)
    for line in reasoning(found):
        out.print(line)
    for note in found.notes:
        out.print(safe(note), style="dim", soft_wrap=True)
    out.print()
    if len(found.steps) > 1:
        out.print(plot(found, min(out.width, 100)))
        out.print()
    out.print(_rows(found))


def _rows(found: LossComparison) -> Any:
    """The steps round the first that is out of tolerance, or the first ones."""
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


def comparison_json(found: LossComparison) -> dict[str, Any]:
    """All that was found; numbers that are not finite are texts."""
    first = found.first_out
    return {
        "a": found.a.origin,
        "b": found.b.origin,
        "verdict": found.verdict,
        "aligned": found.is_aligned,
        "rtol": found.rtol,
        "atol": found.atol,
        "by": found.by,
        "headline": headline(found),
        "reasoning": list(reasoning(found)),
        "notes": list(found.notes),
        "first_out_of_tolerance": None
        if first is None
        else {
            "step": found.steps[first],
            "a": float(found.values_a[first]),
            "b": float(found.values_b[first]),
            "relative_error": float(found.errors[first]),
        },
        "out_of_tolerance": int(found.out.sum()),
        "max_relative_error": float(found.errors.max()),
        "drift": {
            "early": found.drift.early,
            "late": found.drift.late,
            "per_100_steps": found.drift.per_100_steps,
            "bias": found.drift.bias,
        },
        "first_not_finite": {"a": found.first_bad_a, "b": found.first_bad_b},
        "steps": [
            {
                "step": step,
                "a": float(found.values_a[k]),
                "b": float(found.values_b[k]),
                "relative_error": float(found.errors[k]),
                "out": bool(found.out[k]),
            }
            for k, step in enumerate(found.steps)
        ],
    }
