"""Gives the loss of a program the tensors that the loss of a captured step was given."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from sonde.adapters.torch import private
from sonde.adapters.torch.replay.comparison import has_same_bits
from sonde.adapters.torch.replay.kept_tensor import map_tree, tensors_in


@dataclass(frozen=True, slots=True, eq=False)
class LossInput:
    """A tensor that an op outside of modules was given: of which function, at which place."""

    function: Any
    position: int
    values: torch.Tensor

    def is_like(self, tensor: torch.Tensor) -> bool:
        values = self.values
        return values.shape == tensor.shape and values.dtype == tensor.dtype


class LabelMode(TorchFunctionMode):
    """Gives the program's loss the tensors that the captured loss was given, such as labels.

    A tensor is exchanged where the program calls the same function of torch with a tensor of the
    same shape and dtype at the same place. Integers are also exchanged in other functions: a fix
    may replace the loss function. A tensor that the program computes from the batch of the captured
    step alone is not exchanged: it may be what the fix changes. ``is_spoiled``: a tensor with NaN
    or Inf took the place of one without; what the program computes of it before it calls the
    network is not computed from the captured batch, so that a fix there has no effect.
    """

    def __init__(self, wanted: list[LossInput]) -> None:
        super().__init__()
        self.wanted = wanted
        self.is_active = False
        self.is_spoiled = False
        self._given: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._captured: dict[int, torch.Tensor] = {}

    def know(self, tensors: Iterable[torch.Tensor]) -> None:
        """These tensors of the program have the values of the captured step."""
        self._captured.update((id(each), each) for each in tensors)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        with private.unobserved():
            pairs = list(enumerate(tensors_in((args, kwargs))))
            exchanged = {id(each): self._exchange(func, at, each) for at, each in pairs}
            if any(exchanged[id(each)] is not each for _, each in pairs):
                args, kwargs = map_tree(
                    (args, kwargs), torch.Tensor, lambda each: exchanged[id(each)]
                )
            used = [each for each in tensors_in((args, kwargs)) if not each.requires_grad]
            is_known = bool(used) and all(id(each) in self._captured for each in used)
        result = func(*args, **kwargs)
        if is_known:
            self.know(each for each in tensors_in(result) if not each.requires_grad)
        return result

    def _exchange(self, function: Any, position: int, tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) in self._given:
            return self._given[id(tensor)][1]
        if tensor.requires_grad:
            return tensor
        like = [each for each in self.wanted if each.is_like(tensor)]
        same = [each for each in like if (each.function, each.position) == (function, position)]
        if id(tensor) in self._captured:
            for found in same[:1]:
                self.wanted.remove(found)
            return tensor
        integers = [each for each in like if not each.values.is_floating_point()]
        for found in (*same, *integers):
            self.wanted.remove(found)
            is_worse = not _is_finite(found.values) and _is_finite(tensor)
            self.is_spoiled = self.is_spoiled or is_worse
            values = own_or_copy(found.values, tensor)
            self._given[id(tensor)] = (tensor, values)  # the reference keeps the id
            self.know([values])
            return values
        return tensor


def own_or_copy(values: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
    """``own`` with these values, so that other uses of it have them, too; else a copy of them.

    Memory that torch has not allocated is not written to: it may be a file of the user.
    """
    is_alike = own.shape == values.shape and own.dtype == values.dtype
    storage = own.untyped_storage() if own.layout is torch.strided else None
    is_free = storage is not None and storage.resizable() and not storage.is_shared()
    if not is_alike or not is_free or 0 in own.stride() or own.is_inference():
        return values.detach().clone()
    with torch.no_grad():
        # Autograd may hold ``own`` already: a batch is given to the network, then to the loss.
        return own if has_same_bits(own, values) else own.copy_(values)


def _is_finite(tensor: torch.Tensor) -> bool:
    return bool(torch.isfinite(tensor).all())
