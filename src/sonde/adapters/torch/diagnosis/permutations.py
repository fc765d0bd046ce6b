"""Observes the orders that a program draws itself, without a loader."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from sonde.adapters.torch.calling_line import caller, is_program
from sonde.adapters.torch.diagnosis.modules import ModuleCalls
from sonde.adapters.torch.diagnosis.recorder import EvidenceRecorder, shielded
from sonde.core.graph import Source
from sonde.core.patching import wrap

FEWEST = 8
"""A shorter order repeats by chance, or is no order of samples."""
MOST = 1 << 20


@dataclass(slots=True, eq=False)
class Permutations:
    """Notes a line of the program that draws the same order again in a later step."""

    recorder: EvidenceRecorder
    modules: ModuleCalls
    _last: dict[Source, tuple[int, int]] = field(default_factory=dict)
    """For each line the hash of its last order, and the step it was drawn in."""

    def install(self, undo: ExitStack) -> None:
        wrap(torch, "randperm", self._around("randperm"), undo)
        wrap(np.random, "permutation", self._around("permutation"), undo)
        wrap(np.random, "shuffle", self._around_shuffle(at=0), undo)
        wrap(random, "shuffle", self._around_shuffle(at=0), undo)
        wrap(random.Random, "shuffle", self._around_shuffle(at=1), undo)

    def _around(self, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def draw(*args: Any, **kwargs: Any) -> Any:
                result = original(*args, **kwargs)
                # The samplers of loaders draw orders, too; the rows of loaders are compared.
                is_own = is_program(sys._getframe(2).f_code.co_filename)  # 1 is the replacement.
                if is_own and self._trains():
                    self._drawn(name, result)
                return result

            return draw

        return make

    def _around_shuffle(self, at: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """``at``: the number of the argument that is shuffled in place."""

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def shuffle(*args: Any, **kwargs: Any) -> None:
                original(*args, **kwargs)
                is_own = is_program(sys._getframe(2).f_code.co_filename)
                if is_own and len(args) > at and self._trains():
                    self._drawn("shuffle", args[at])

            return shuffle

        return make

    def _trains(self) -> bool:
        """Whether the order may be one of training: the evaluation may use one subset again."""
        last = self.modules.last
        return torch.is_grad_enabled() and (last is None or last.module.training)

    @shielded
    def _drawn(self, name: str, result: Any) -> None:
        order = result.numpy() if _is_on_cpu(result) else result
        if isinstance(order, list) and FEWEST <= len(order) <= MOST:
            order = _numbers_of(order)
        source = caller()
        if source is None or not isinstance(order, np.ndarray) or order.dtype.kind not in "iu":
            return
        if order.ndim != 1 or not FEWEST <= order.size <= MOST:
            return
        self.recorder.event("epoch-begun", source, name)
        drawn, step = hash(order.tobytes()), self.recorder.step
        known = self._last.get(source)
        self._last[source] = drawn, step
        if known is not None and known[0] == drawn and known[1] < step:
            self.recorder.event("same-permutation", source, name, rows=order.size)


def _numbers_of(listed: list[Any]) -> np.ndarray:
    """A number for each element: itself, or that of the object, which a list of samples keeps."""
    is_numbers = all(type(each) is int for each in listed)
    numbers = listed if is_numbers else [id(each) for each in listed]
    return np.array(numbers, dtype=np.int64)


def _is_on_cpu(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "cpu" and not value.is_sparse
