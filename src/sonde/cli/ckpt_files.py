"""What the commands on checkpoints share: opening files, JSON, names and numbers as text."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sonde import kernels
from sonde.compare.checkpoint import Checkpoint
from sonde.compare.checkpoint_files import open_checkpoint
from sonde.core.errors import CaptureError, UsageError

_FOLDED_WIDTH = 14
WIDE = 110
"""From so many columns on, a terminal has room for numbers that are not needed at first sight."""


def load(path: Path, *, step: int | None = None) -> Checkpoint:
    """The weights in a checkpoint file or a dump; torch is imported for its own files only."""
    kernels.thread_limit(os.cpu_count() or 1)
    return open_checkpoint(path, read_torch, step=step)


def read_torch(path: Path) -> Checkpoint:
    """A file of torch's; CaptureError where torch is not installed."""
    try:
        from sonde.adapters.torch import checkpoints
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise CaptureError(
            f"{path} is a file of PyTorch's, which is not installed; pip install torch",
            slug="torch-missing",
        ) from None
    return checkpoints.read_torch(path)


def write_json(target: str, document: dict[str, Any]) -> None:
    """Write to a file, or to the standard output for ``-``; what is not finite becomes text."""
    text = json.dumps(finite(document), indent=1, allow_nan=False) + "\n"
    if target == "-":
        sys.stdout.write(text)
        return
    try:
        partial = Path(f"{target}.{os.getpid()}.partial")
        partial.write_text(text)
        os.replace(partial, target)
    except OSError as error:
        raise UsageError(
            f"--json {target} cannot be written: {error.strerror}", slug="usage"
        ) from None


def finite(value: Any) -> Any:
    """JSON has no NaN: what is not finite becomes text."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {str(key): finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return value


def safe(text: str) -> str:
    """A name from a file as it may be printed: control characters made visible."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def number(value: float | int | None) -> str:
    if value is None:
        return ""
    return f"{value:.3g}" if isinstance(value, float) else f"{value:,}"


def shape_text(shape: Sequence[int]) -> str:
    return f"[{','.join(map(str, shape))}]"


def console() -> Console:
    """Wide enough for names where nobody looks: output into a file or a pipe is not cut."""
    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=max(found.width, 160))


def table(*titles: str) -> Table:
    """A plain table: ``>`` before a title makes a column of numbers, ``~`` one that may fold."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for title in titles:
        made.add_column(
            title.lstrip(">~"),
            justify="right" if title[:1] == ">" else "left",
            overflow="fold",
            no_wrap=title[:1] != "~",
            min_width=_FOLDED_WIDTH if title[:1] == "~" else None,
        )
    return made


def cell(text: str, style: str = "") -> Text:
    return Text(safe(text), style)
