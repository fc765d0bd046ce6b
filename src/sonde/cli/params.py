"""``sonde params``: lists the parameters of a network, or matches those of two networks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from sonde.cli.ckpt_files import console, load, print_line
from sonde.cli.ckpt_text import pairing_json, print_misshaped
from sonde.cli.json_output import json_file_option, json_option, write_document
from sonde.compare.weights.checkpoint import Checkpoint
from sonde.compare.weights.listing import (
    WIDE,
    cell,
    number,
    parameter_table,
    shape_text,
    table,
    totals,
    totals_text,
)
from sonde.compare.weights.table import (
    PairRow,
    ParameterComparison,
    ParameterRow,
    compare_parameters,
    list_parameters,
)
from sonde.core.errors import UsageError
from sonde.core.text.terminal_text import printable
from sonde.kernels import Distances

EPILOG = """\b
Examples:
  sonde params model.safetensors              every parameter, its shape and statistics
  sonde params mindspore.ckpt torch.pt        which match, which are missing
  sonde params sonde_dump mindspore_dump      the same, from dumps
  sonde params a.pt b.ckpt --json | jq .only_a

\b
A and B: .ckpt of MindSpore, .safetensors, .pt/.pth/.bin of PyTorch, .npz, or a dump.
Exit codes: 0 all are matched, 1 some are missing, extra or have another shape, 2 error.
"""


@click.command(epilog=EPILOG)
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path), required=False)
@click.option("--step", type=int, metavar="N", help="The step of a dump. Default: the first.")
@click.option("--state", is_flag=True, help="Also show the state of the optimizer.")
@json_option
@json_file_option
def params(
    a: Path,
    b: Path | None,
    step: int | None,
    state: bool,
    as_json: bool,
    json_file: str | None,
) -> int:
    """Show all parameters of A (trainable or not, shape, count, statistics), or match A with B.

    Names that MindSpore and PyTorch use for the same parameter (gamma and weight, moving_mean and
    running_mean, embedding_table and weight, ...) are matched; other parameters are matched by
    shape and order. Missing and extra parameters and those with another shape are listed.
    """
    first = load(a, step=step)
    second = None if b is None else load(b, step=step)
    if step is not None and "dump" not in (first.format, second.format if second else ""):
        what = "is not a dump" if second is None else f"and {b} are not dumps"
        raise UsageError(
            f"--step is for dumps; {a} {what}, and a checkpoint has one step", slug="usage"
        )
    if second is None:
        show_checkpoint(first, as_json=as_json, json_file=json_file, with_state=state)
        return 0
    compared = compare_parameters(first, second)
    document = _comparison_json(first, second, compared)
    write_document(document, as_json=as_json, json_file=json_file)
    if not as_json:
        _print_comparison(console(), first, second, compared)
    return 0 if compared.pairing.is_complete else 1


def show_checkpoint(
    checkpoint: Checkpoint,
    *,
    as_json: bool,
    json_file: str | None = None,
    with_state: bool = False,
) -> None:
    """Print every parameter, as a table or as JSON, and write them to ``json_file``."""
    rows = list_parameters(checkpoint)
    write_document(_list_json(checkpoint, rows), as_json=as_json, json_file=json_file)
    if not as_json:
        _print_list(console(), checkpoint, rows, with_state=with_state)


def _print_list(
    out: Console, checkpoint: Checkpoint, rows: dict[str, ParameterRow], *, with_state: bool
) -> None:
    listed = {name: row for name, row in rows.items() if with_state or row.role != "state"}
    out.print(parameter_table(listed, is_wide=out.width >= WIDE))
    print_line(out, totals_text(str(checkpoint.path), rows), "bold")
    state = sum(row.role == "state" for row in rows.values())
    if state and not with_state:
        out.print(f"and {state} of the optimizer; --state shows them", style="dim")


def _print_comparison(
    out: Console, a: Checkpoint, b: Checkpoint, compared: ParameterComparison
) -> None:
    is_wide = out.width >= WIDE
    titles = ["~a", "~b", "by", "shape", "values", ">max abs"]
    shown = table(*titles, *([">std a", ">std b", ""] if is_wide else [""]))
    for row in compared.rows:
        pair = row.pair
        shown.add_row(
            cell(pair.a),
            cell(pair.b if pair.b != pair.a else "="),
            pair.how,
            shape_text(row.a.weight.shape) + (f" {pair.fit}" if not pair.fit.is_plain else ""),
            cell(_values_text(row)),
            number(None if row.distances is None else row.distances.max_abs_error),
            *(number(side.numbers.get("std")) for side in (row.a, row.b) if is_wide),
            cell("; ".join(row.notes), "yellow"),
        )
    if compared.rows:
        out.print(shown)
    for flat, distances in compared.flat:
        where = "a" if flat.flat_is_a else "b"
        print_line(
            out,
            f"{printable(flat.flat)} (in {where}) is flat: {', '.join(map(printable, flat.parts))}"
            f"{_flat_text(distances)}",
        )
    _print_unpaired(out, compared)
    for side, checkpoint, rows in (("a", a, compared.a), ("b", b, compared.b)):
        print_line(out, f"{side}: {totals_text(str(checkpoint.path), rows)}")
    pairing = compared.pairing
    same = sum(row.is_same is True and row.distances is not None for row in compared.rows)
    bare = _without_values(compared)
    print_line(
        out,
        f"{len(compared.rows)} paired, {same} of them with equal values{bare}; "
        f"{len(pairing.only_a)} only in a, {len(pairing.only_b)} only in b, "
        f"{len(pairing.misshaped)} of another shape",
        "bold",
    )


def _without_values(compared: ParameterComparison) -> str:
    """The part of the summary about pairs without values, compared by statistics or not at all."""
    rows = [row for row in compared.rows if row.distances is None]
    same = sum(row.is_same is True for row in rows)
    return f", {len(rows)} without values, {same} of these with equal statistics" if rows else ""


def _values_text(row: PairRow) -> str:
    if row.hidden is not None:
        return f"equal, {row.hidden}"
    if row.distances is None:
        return {None: "not compared", True: "same statistics", False: "other statistics"}[
            row.is_same
        ]
    if not row.distances.is_equal:
        return "differ"
    return "equal" if row.is_same else f"equal, {row.a.weight.dtype}/{row.b.weight.dtype}"


def _flat_text(distances: Distances | None) -> str:
    if distances is None:
        return ""
    return ", equal" if distances.is_equal else f", max abs error {distances.max_abs_error:.3g}"


def _print_unpaired(out: Console, compared: ParameterComparison) -> None:
    pairing = compared.pairing
    print_misshaped(out, pairing)
    for side, names, rows in (
        ("a", pairing.only_a, compared.a),
        ("b", pairing.only_b, compared.b),
    ):
        for name in names:
            text = f"only in {side}: {name} {shape_text(rows[name].weight.shape)}"
            print_line(out, cell(text, "bold red"))
    if pairing.counters:
        out.print(
            f"left out: {len(pairing.counters)} num_batches_tracked, which MindSpore lacks",
            style="dim",
        )
    for side, names in (("a", pairing.state_a), ("b", pairing.state_b)):
        if names:
            out.print(f"left out: {len(names)} of the optimizer, only in {side}", style="dim")


def _list_json(checkpoint: Checkpoint, rows: Mapping[str, ParameterRow]) -> dict[str, Any]:
    return {
        "path": str(checkpoint.path),
        "format": checkpoint.format,
        "parameters": [_row_json(row) for row in rows.values()],
        **totals(rows),
    }


def _row_json(row: ParameterRow) -> dict[str, Any]:
    return {
        "name": row.weight.name,
        "dtype": row.weight.dtype,
        "shape": list(row.weight.shape),
        "count": row.weight.count,
        "role": row.role,
        "trainable": row.trainable,
        "statistics": dict(row.numbers),
    }


def _comparison_json(a: Checkpoint, b: Checkpoint, compared: ParameterComparison) -> dict[str, Any]:
    pairing = compared.pairing
    return {
        "a": _list_json(a, compared.a),
        "b": _list_json(b, compared.b),
        "complete": pairing.is_complete,
        "pairs": [_pair_json(row) for row in compared.rows],
        "flat": [
            {"flat": each.flat, "parts": each.parts, "flat_in": "a" if each.flat_is_a else "b"}
            for each in pairing.flat
        ],
        **pairing_json(pairing),
    }


def _pair_json(row: PairRow) -> dict[str, Any]:
    fit, distances = row.pair.fit, row.distances
    return {
        "a": row.pair.a,
        "b": row.pair.b,
        "how": row.pair.how,
        "axes": fit.axes,
        "reshaped": fit.reshaped,
        "equal": None if distances is None else distances.is_equal,
        "same_statistics": row.is_same if distances is None else None,
        "equal_when_transposed": None if row.hidden is None else row.hidden.axes or (),
        "max_abs_error": None if distances is None else distances.max_abs_error,
        "relative_l2": None if distances is None else distances.relative_l2,
        "notes": row.notes,
    }
