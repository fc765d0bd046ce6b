"""Tensors that come from another process: data that arrive, not ops of the program.

A DataLoader with workers gets its batches as handles of shared memory, and torch makes tensors of
them in the training's own thread, in whichever step they happen to come. Observed, that would be
ops that no two runs have in the same place. Hidden, the batches are what they are: inputs.
"""

from __future__ import annotations

import functools
from contextlib import ExitStack
from typing import Any

import torch.multiprocessing.reductions as reductions

from sonde.adapters.torch import private


def hide_arrivals(undo: ExitStack) -> None:
    """Let no mode see tensors being received, until ``undo`` is closed."""
    place: Any = reductions
    original = place.rebuild_tensor

    @functools.wraps(original)  # pickle finds it, and checks it, by its name
    def rebuild_tensor(*args: Any) -> Any:
        with private.unobserved():
            return original(*args)

    place.rebuild_tensor = rebuild_tensor
    undo.callback(setattr, place, "rebuild_tensor", original)
