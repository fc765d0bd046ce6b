"""``sonde ckpt``: compares, checks and converts checkpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from sonde.cli import ckpt_text
from sonde.cli.ckpt_files import console, load, read_torch
from sonde.cli.json_output import json_file_option, json_option, write_document
from sonde.compare.weights import convert as conversion
from sonde.compare.weights.check import check_checkpoint
from sonde.compare.weights.convert import DEFAULT_NAMES, Format, Names, Target, new_names
from sonde.compare.weights.diff import diff_checkpoints
from sonde.compare.weights.file_formats import FILE_FORMATS
from sonde.compare.weights.flat import as_in, refuse_flat
from sonde.core.errors import UsageError
from sonde.core.files.input_file import read_input

_FILE = click.Path(path_type=Path)

EPILOG = """\b
Examples:
  sonde ckpt diff step0.ckpt step1.ckpt             which weights changed, which did not
  sonde ckpt check model.pt                         NaN, Inf, zeros, dead rows, odd statistics
  sonde ckpt convert model.pt model.ckpt --to mindspore

\b
Files: .ckpt of MindSpore, .safetensors, .pt/.pth/.bin of PyTorch, .npz; or a dump's directory.
"""


@click.group(epilog=EPILOG)
def ckpt() -> None:
    """Compare, check and convert checkpoints of MindSpore, PyTorch and others."""


@ckpt.command(
    epilog="\b\nExamples:\n  sonde ckpt diff before.ckpt after.ckpt\n"
    "  sonde ckpt diff mindspore.ckpt torch.pt --json-file diff.json\n\n\b\n"
    "Exit codes: 0 equal bit for bit, 1 different, 2 error.",
)
@click.argument("a", type=_FILE)
@click.argument("b", type=_FILE)
@json_option
@json_file_option
def diff(a: Path, b: Path, as_json: bool, json_file: str | None) -> int:
    """Report which weights changed from A to B, by how much, and which did not change.

    Weights are matched as in `sonde params`. NaN and Inf are counted on both sides.
    """
    first, second = load(a), load(b)
    found = diff_checkpoints(first, second)
    document = ckpt_text.diff_json(first, second, found)
    write_document(document, as_json=as_json, json_file=json_file)
    if not as_json:
        ckpt_text.print_diff(console(), found)
    return 0 if found.is_same else 1


@ckpt.command(
    epilog="\b\nExamples:\n  sonde ckpt check model.safetensors\n\n\b\n"
    "Exit codes: 0 no findings, 1 errors or warnings found, 2 the check could not run.",
)
@click.argument("a", type=_FILE)
@json_option
@json_file_option
def check(a: Path, as_json: bool, json_file: str | None) -> int:
    """Find NaN, Inf, all zeros, constants, dead rows and unusual initial statistics in A."""
    checkpoint = load(a)
    findings = check_checkpoint(checkpoint)
    document = ckpt_text.check_json(checkpoint, findings)
    write_document(document, as_json=as_json, json_file=json_file)
    if not as_json:
        ckpt_text.print_check(console(), checkpoint, findings)
    return 1 if any(finding.severity != "info" for finding in findings) else 0


@ckpt.command(
    epilog="\b\nExamples:\n  sonde ckpt convert model.pt model.ckpt --to mindspore\n"
    "  sonde ckpt convert model.ckpt model.safetensors --to safetensors --names torch",
)
@click.argument("a", type=_FILE)
@click.argument("b", type=_FILE)
@click.option(
    "--to",
    "target",
    type=click.Choice(["torch", "mindspore", "safetensors"]),
    help="The format to write. Required.",
)
@click.option(
    "--names",
    type=click.Choice(["torch", "mindspore", "keep"]),
    help="The naming scheme to write. Default: that of the format's framework; safetensors keeps "
    "the names.",
)
@click.option(
    "--map",
    "map_file",
    metavar="FILE",
    help='A JSON object {"old": "new", ...} with new names; null omits a weight.',
)
@click.option(
    "--like",
    type=_FILE,
    help="A checkpoint of the same network whose layout of recurrent layers is written: in parts, "
    "or flat as in MindSpore before 1.6.",
)
@click.option(
    "--keep-counters",
    is_flag=True,
    help="Keep num_batches_tracked, which MindSpore does not have.",
)
@click.option("--force", is_flag=True, help="Replace B if it exists.")
@json_option
@json_file_option
def convert(
    a: Path,
    b: Path,
    target: Target | None,
    names: Names | None,
    map_file: str | None,
    like: Path | None,
    keep_counters: bool,
    force: bool,
    as_json: bool,
    json_file: str | None,
) -> int:
    """Write the weights of A to B in another format, bit for bit, with the names used there.

    B is written under a temporary name, read back and compared before it is renamed: it appears
    complete and verified, or not at all. A type that the format lacks (float8 in MindSpore's) is
    refused, never converted.
    """
    if target is None:
        raise UsageError("--to is missing: torch, mindspore or safetensors", slug="usage")
    source = load(a)
    chosen = names or DEFAULT_NAMES[target]
    if like is not None:
        source = as_in(source, load(like))
    elif chosen == "torch":
        refuse_flat(source)
    mapped = new_names(source, chosen, keep_counters=keep_counters, given=_read_map(map_file))
    done = conversion.convert(source, b, _format(target), mapped, replace_existing=force)
    document = ckpt_text.conversion_json(a, b, target, done)
    write_document(document, as_json=as_json, json_file=json_file)
    if not as_json:
        ckpt_text.print_conversion(console(), a, b, done)
    return 0


def _format(target: Target) -> Format:
    found = FILE_FORMATS[target]
    if found.read is not None and found.write is not None:
        return Format(found.write, found.read)
    from sonde.adapters.torch.checkpoints.files import write_torch

    return Format(write_torch, read_torch)


def _read_map(file: str | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        content = json.loads(read_input(Path(file)))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"--map {file} cannot be read: {error}", slug="usage") from None
    if not isinstance(content, dict) or not all(
        new is None or (isinstance(new, str) and new) for new in content.values()
    ):
        raise UsageError(f'--map {file} is not an object {{"old": "new", ...}}', slug="usage")
    return content
