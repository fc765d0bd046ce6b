"""Waits, in a program that has imported torch, for the first sign that it trains.

That is its first module, optimizer, backward pass, or start of ranks. Until then nothing is
observed and nothing written: a process that only prints ``torch.__version__`` must not move the
dump of an earlier training aside. This module imports little; ``environment`` does the rest.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from typing import Any

import torch

from sonde.core.observation_variables import asking
from sonde.core.patching import call_before, wrap

_waiting: list[int] = []


def has_waited() -> bool:
    """Whether this process was to be observed when it trains."""
    return os.getpid() in _waiting


def wait(directory: str) -> None:
    """Observe this process, as its environment says, when it begins to train.

    ``directory`` is the current directory when it started. Only the main thread counts, which is
    the one that is observed; a forked child is not observed.
    """
    if not asking(os.environ):  # set, but empty
        return
    process = os.getpid()
    _waiting.append(process)
    undo = ExitStack()

    def begin(*_: Any, **__: Any) -> None:
        if os.getpid() != process:
            undo.close()
        elif threading.current_thread() is threading.main_thread():
            undo.close()
            import_module("sonde.adapters.torch.environment").begin(directory)

    call_before(torch.nn.Module, "__init__", begin, undo)
    call_before(torch.optim.Optimizer, "__init__", begin, undo)
    call_before(torch.autograd, "backward", begin, undo)
    call_before(torch.autograd, "grad", begin, undo)
    _wrap_start_of_ranks(begin, undo)


def _wrap_start_of_ranks(begin: Callable[[], None], undo: ExitStack) -> None:
    # ``torch.multiprocessing.spawn`` is the function, which hides the module of that name.
    module: Any = sys.modules["torch.multiprocessing.spawn"]

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def start_processes(*args: Any, **kwargs: Any) -> Any:
            begin()
            # The capture that has begun observes the processes that its own function starts.
            now = module.start_processes
            return (original if now is start_processes else now)(*args, **kwargs)

        return start_processes

    wrap(module, "start_processes", make, undo)
    wrap(torch.multiprocessing, "start_processes", make, undo)
