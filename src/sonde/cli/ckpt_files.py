"""Shared by the commands that compare: opens checkpoints, prints tables."""

from __future__ import annotations

import os
from pathlib import Path

from rich.console import Console
from rich.text import Text

from sonde import kernels
from sonde.cli.script import needing_torch
from sonde.cli.terminal import Terminal
from sonde.compare.weights.checkpoint import Checkpoint
from sonde.compare.weights.files import open_checkpoint


def load(path: Path, *, step: int | None = None) -> Checkpoint:
    """The weights in a checkpoint file or a dump; torch is imported for its own files only."""
    kernels.thread_limit(os.cpu_count() or 1)
    return open_checkpoint(path, read_torch, step=step)


def read_torch(path: Path) -> Checkpoint:
    """Read a file of PyTorch; CaptureError if PyTorch is not installed."""
    with needing_torch(f"{path} is a PyTorch file, and PyTorch is not installed"):
        from sonde.adapters.torch.checkpoints import files as checkpoints
    return checkpoints.read_torch(path)


def console() -> Console:
    """A console for output; into a file or a pipe it is wide enough that names are not cut."""
    found = Terminal(highlight=False)
    return found if found.is_terminal else Terminal(highlight=False, width=max(found.width, 160))


def print_line(out: Console, text: str | Text, style: str = "") -> None:
    """Print one line, however long, without breaking it."""
    out.print(text, style=style, soft_wrap=True)
