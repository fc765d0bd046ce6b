"""Shared by the commands that compare: opens checkpoints, writes files, prints tables."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from sonde import kernels
from sonde.cli.script import needing_torch
from sonde.cli.terminal import Terminal
from sonde.compare.weights.checkpoint import Checkpoint
from sonde.compare.weights.files import open_checkpoint
from sonde.core.errors import UsageError
from sonde.core.files.atomic_file import write_whole
from sonde.core.text.number_text import json_value

json_option = click.option(
    "--json", "json_file", metavar="FILE", help="Write JSON to FILE; - is standard output."
)


def load(path: Path, *, step: int | None = None) -> Checkpoint:
    """The weights in a checkpoint file or a dump; torch is imported for its own files only."""
    kernels.thread_limit(os.cpu_count() or 1)
    return open_checkpoint(path, read_torch, step=step)


def read_torch(path: Path) -> Checkpoint:
    """Read a file of PyTorch; CaptureError if PyTorch is not installed."""
    with needing_torch(f"{path} is a PyTorch file, and PyTorch is not installed"):
        from sonde.adapters.torch.checkpoints import files as checkpoints
    return checkpoints.read_torch(path)


def write_json(target: str, document: dict[str, Any]) -> None:
    """Write to a file, or to standard output for ``-``; numbers that are not finite become text."""
    text = json.dumps(json_value(document), indent=1, allow_nan=False) + "\n"
    if target == "-":
        sys.stdout.write(text)
    else:
        write_file("--json", target, text)


def write_file(option: str, target: str, data: str | bytes) -> None:
    """Write the file given with an option; UsageError if that fails."""
    try:
        write_whole(Path(target), data)
    except OSError as error:
        raise UsageError(
            f"{option} {target} cannot be written: {error.strerror}", slug="usage"
        ) from None


def console() -> Console:
    """A console for output; into a file or a pipe it is wide enough that names are not cut."""
    found = Terminal(highlight=False)
    return found if found.is_terminal else Terminal(highlight=False, width=max(found.width, 160))


def print_line(out: Console, text: str | Text, style: str = "") -> None:
    """Print one line, however long, without breaking it."""
    out.print(text, style=style, soft_wrap=True)
