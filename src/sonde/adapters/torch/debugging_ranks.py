"""Several ranks that are debugged: how many there are, and how all of them end together."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch

from sonde.adapters.torch.replacing import replace_function


def world_size() -> int:
    """How many processes train: as the process group knows, else the launcher, else 1."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_world_size()
    text = os.environ.get("WORLD_SIZE", "")
    return int(text) if text.isdigit() else 1


def outlive_launcher() -> None:
    """torchrun sends SIGTERM to the other ranks when one has ended, and kills them later: they
    shall do meanwhile what is to be done on the way out, and not die of it."""
    is_main = threading.current_thread() is threading.main_thread()
    is_launched = "TORCHELASTIC_RUN_ID" in os.environ
    if is_main and is_launched and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def watch_buffers(failed: Callable[[Exception], None], undo: ExitStack) -> None:
    """Until ``undo`` is closed, tell ``failed`` what was raised where ranks exchange buffers, the
    one thing that DistributedDataParallel does together outside of the backward pass."""
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

    replace_function(torch.nn.parallel.DistributedDataParallel, "_sync_buffers", watched, undo)
