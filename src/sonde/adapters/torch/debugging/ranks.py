"""Debugging several ranks: their number, and how all of them end together."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch

from sonde.adapters.torch import private
from sonde.core.patching import wrap


def world_size() -> int:
    """The number of training processes: the process group's, else the launcher's, else 1."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_world_size()
    text = os.environ.get("WORLD_SIZE", "")
    return int(text) if text.isdigit() else 1


def outlive_launcher() -> None:
    """Ignore SIGTERM under torchrun, which sends it to the other ranks when one has ended and
    kills them later: this rank must finish its orderly end meanwhile."""
    is_main = threading.current_thread() is threading.main_thread()
    is_launched = "TORCHELASTIC_RUN_ID" in os.environ
    if is_main and is_launched and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def watch_buffers(failed: Callable[[Exception], None], undo: ExitStack) -> None:
    """Until ``undo`` is closed, call ``failed`` with an exception from the exchange of buffers, the
    only collective of DistributedDataParallel outside of the backward pass."""
    if not torch.distributed.is_available():
        return

    def watched(original: Callable[..., Any]) -> Callable[..., Any]:
        def sync(this: Any) -> Any:
            try:
                return original(this)
            except Exception as error:
                failed(error)
                raise

        return sync

    patch = wrap(torch.nn.parallel.DistributedDataParallel, "_sync_buffers", watched, undo)
    private.hide_from_compiler(patch.replacement)
