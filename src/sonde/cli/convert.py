"""``sonde convert``: converts dumps of old formats to ``.npy`` files, which Sonde reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sonde.cli.json_output import json_option, print_document
from sonde.cli.progress import progress_bar
from sonde.core.errors import DumpError
from sonde.core.text.number_text import count_text, size_text
from sonde.core.text.terminal_text import printable
from sonde.dump.conversion import ConvertedDump
from sonde.dump.conversion import convert as convert_dump
from sonde.dump.reader import Dump
from sonde.logs import say

_SHOWN_PROBLEMS = 20

EPILOG = """\b
Examples:
  sonde convert old_dump new_dump            a dump of MindSpore 1.0 to 1.2 (.bin files)
  sonde convert ascend_dump new_dump         a raw dump of an Ascend device (protobuf)
  sonde convert Add.Default_Add-op1.2.161243956333802 new_dump    one raw file

\b
Then:
  sonde show new_dump
"""


@click.command(epilog=EPILOG)
@click.argument("source", metavar="DIR", type=click.Path(path_type=Path))
@click.argument("out", metavar="OUT", type=click.Path(path_type=Path))
@json_option
def convert(source: Path, out: Path, as_json: bool) -> int:
    """Convert the dump in DIR, of an old format, to a dump of .npy files in OUT.

    Reads the .bin files of MindSpore 1.0 to 1.2 and the raw (protobuf) files of Ascend's
    asynchronous dump, in place of dump_data_conversion.pyc and msaccucmp.pyc. Tensors in a layout
    of the device (NC1HWC0, FRACTAL_Z, FRACTAL_NZ) get that of the network where it is known.
    sonde show, view and compare read the result.
    """
    _refuse_readable(source)
    with progress_bar("converting") as show:
        found = convert_dump(source, out, lambda done, total: show("files", done, total))
    for problem in found.problems[:_SHOWN_PROBLEMS]:
        say(f"error: {printable(problem)}")
    if len(found.problems) > _SHOWN_PROBLEMS:
        say(f"and {len(found.problems) - _SHOWN_PROBLEMS} more problems")
    if not found.tensors:
        raise DumpError(f"{source}: no tensor could be read", slug="old-dump-file")
    if as_json:
        print_document(_json(found, out))
    else:
        click.echo(_summary(found, out))
    return 2 if found.problems else 0


def _refuse_readable(source: Path) -> None:
    try:
        Dump(source)
    except DumpError:
        return
    raise DumpError(
        f"{source} is a dump that Sonde reads as it is: sonde show {source}",
        slug="convert-needless",
    )


def _json(found: ConvertedDump, out: Path) -> dict[str, Any]:
    return {
        "path": str(out),
        "tensors": found.tensors,
        "bytes": found.nbytes,
        "steps": [{"rank": rank, "step": step} for rank, step in sorted(found.steps)],
        "device_formats": sorted(found.device_formats),
        "problems": list(found.problems),
    }


def _summary(found: ConvertedDump, out: Path) -> str:
    ranks = {rank for rank, _ in found.steps}
    steps = {step for _, step in found.steps}
    text = (
        f"converted {count_text(found.tensors, 'tensor')} ({size_text(found.nbytes)}) of "
        f"{count_text(len(steps), 'step')}, {count_text(len(ranks), 'rank')}, to {out}"
    )
    if found.device_formats:
        names = ", ".join(sorted(found.device_formats))
        text += f"; in the layout of the device, because the other is not known: {names}"
    return printable(text)
