"""Finds batches that the program reshapes before the network, as if a reshape transposed them.

A view knows the tensor that it shows, so that the inputs of the network are looked at, and nothing
is replaced. If one is reordered, the program's reshapes are observed until the next batch, to see
the line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from sonde.adapters.torch.calling_line import caller, is_program
from sonde.adapters.torch.diagnosis.modules import RootCall, tensors_in
from sonde.adapters.torch.diagnosis.recorder import EvidenceRecorder, shielded
from sonde.core.patching import Removals, wrap
from sonde.diagnosis.reshapes import SWAPS_BATCH, Shape, reordering

LAST_STEP = 3


@dataclass(slots=True, eq=False)
class BatchReshapes:
    """Notes one reshape of a batch that reorders its dimensions."""

    recorder: EvidenceRecorder
    _removals: Removals | None = None
    _is_done: bool = False

    def install(self, undo: ExitStack) -> None:
        undo.callback(self._end)

    def _end(self) -> None:
        self._is_done = True
        if self._removals is not None:
            self._removals.close()

    @shielded
    def root_called(self, call: RootCall, trained: bool) -> None:
        if self._is_done or not trained:
            return
        if self.recorder.step > LAST_STEP:
            self._end()
            return
        for tensor in tensors_in((call.args, call.kwargs)):
            shown = _shown_by(tensor)
            if shown is None or not _is_reordered(shown, tuple(tensor.shape)):
                continue
            if self._removals is None and not self.recorder.uses_compiler:
                self._observe()
            else:  # Where the line is not seen, that of the network is named.
                self._found(call.source, shown, tuple(tensor.shape))
            return

    def _observe(self) -> None:
        self._removals = Removals()
        for name in ("view", "reshape", "unflatten"):
            wrap(torch.Tensor, name, self._around, self._removals)

    def _around(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def reshape(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
            result: torch.Tensor = original(tensor, *args, **kwargs)
            # Frame 1 is the replacement.
            if not self._is_done and is_program(sys._getframe(2).f_code.co_filename):
                self._reshaped(tensor, result)
            return result

        return reshape

    @shielded
    def _reshaped(self, before: torch.Tensor, after: torch.Tensor) -> None:
        if not before.requires_grad and _is_reordered(tuple(before.shape), tuple(after.shape)):
            self._found(caller(), tuple(before.shape), tuple(after.shape))

    def _found(self, source: Any, before: Shape, after: Shape) -> None:
        kind = reordering(before, after)
        if kind is not None:
            self.recorder.event(kind, source, "view", before=str(before), after=str(after))
        self._end()


def _is_reordered(before: Shape, after: Shape) -> bool:
    return reordering(before, after) not in (None, SWAPS_BATCH)


def _shown_by(tensor: torch.Tensor) -> Shape | None:
    """The shape of what a view shows in another shape; of rows of a larger tensor, that of these
    rows. None for what is no view, or one that a transposition made."""
    base = tensor._base
    if base is None or tensor.requires_grad or tensor.dim() < 2 or base.dim() < 2:
        return None
    if tensor.layout != torch.strided or not (tensor.is_contiguous() and base.is_contiguous()):
        return None
    row = prod(base.shape[1:])
    if not row or tensor.numel() % row or tensor.shape[1:] == base.shape[1:]:
        return None
    return (tensor.numel() // row, *(int(each) for each in base.shape[1:]))
