"""Counts the reducing collectives that each gradient of a step is in.

DistributedDataParallel reduces the parameters that had ``requires_grad`` when it was made; the
program may reduce gradients itself between a backward pass and the step of the optimizer. What it
reduces in a buffer of its own cannot be told from other tensors: then nothing is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from sonde.adapters.torch import private
from sonde.adapters.torch.ranks.digests import plain
from sonde.adapters.torch.ranks.private import wrapped_parameters
from sonde.core.weak_table import WeakTable


@dataclass(slots=True, eq=False)
class ReducedGradients:
    """Of the running step. Used from the training thread."""

    _wrapped: WeakTable[DistributedDataParallel, frozenset[int]] = field(default_factory=WeakTable)
    _called: list[frozenset[int]] = field(default_factory=list)
    _given: Counter[tuple[int, int]] = field(default_factory=Counter)
    _is_ready: bool = False

    def wrapped(self, wrapper: DistributedDataParallel) -> None:
        """A wrapper was made: it reduces these parameters for good."""
        self._wrapped[wrapper] = frozenset(
            private.tensor_id(each) for each in wrapped_parameters(wrapper) if each.requires_grad
        )

    def called(self, module: Any) -> None:
        """An outermost module is called: a wrapper will reduce in the backward pass."""
        wrapper = getattr(module, "_orig_mod", module)
        if isinstance(wrapper, DistributedDataParallel) and wrapper.require_backward_grad_sync:
            self._called.append(self._wrapped.get(wrapper) or frozenset())

    def backward(self, *, has_ended: bool) -> None:
        """Only what is given between a backward pass and the optimizer's step is a gradient."""
        self._is_ready = has_ended

    def given(self, tensor: Any) -> None:
        """The program gives ``tensor`` to a collective that reduces."""
        values = plain(tensor) if isinstance(tensor, torch.Tensor) else None
        if self._is_ready and values is not None and values.is_floating_point():
            self._given[values.data_ptr(), values.numel()] += 1

    def counts(self, parameters: Sequence[torch.Tensor]) -> list[int | None]:
        """In how many reducing collectives each gradient was; None for one without a gradient, of a
        DTensor, and for all if the program has reduced something that is no gradient."""
        keys = [_key(each) for each in parameters]
        known = set(keys)
        unknown = any(key not in known and key[1] > 1 for key in self._given)
        wrapped = [set(each) for each in {id(each): each for each in self._called}.values()]
        found: list[int | None] = []
        for parameter, key in zip(parameters, keys, strict=True):
            if key is None or unknown:
                found.append(None)
                continue
            number = private.tensor_id(parameter)
            found.append(self._given[key] + sum(number in each for each in wrapped))
        return found

    def step_ended(self) -> None:
        self._called.clear()
        self._given.clear()
        self._is_ready = False


def _key(parameter: torch.Tensor) -> tuple[int, int] | None:
    if parameter.grad is None or hasattr(parameter, "device_mesh"):
        return None
    values = plain(parameter.grad)
    return None if values is None else (values.data_ptr(), values.numel())
