"""Where a program holds its tensors: the attributes of its modules.

``torch.utils.swap_tensors`` refuses a tensor with a weak reference, and torch swaps the parameters
of a module to convert them (DTensor, ``to_empty``, ``set_swap_module_params_on_conversion``). So
Sonde refers weakly to the module that holds a tensor, or to the tensor's storage, never to the
tensor itself.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from sonde.adapters.torch import private
from sonde.core.graph import Kind

_OWN = 3
"""The largest reference count of a tensor that only `LooseTensor` holds: its attribute, a variable
of ``tensor`` and the argument of ``sys.getrefcount``."""


@dataclass(frozen=True, slots=True)
class ModulePlace:
    """An attribute of a module that holds a tensor; keeps neither of them alive."""

    module: weakref.ref[nn.Module]
    table: str
    name: str

    @property
    def tensor(self) -> torch.Tensor | None:
        """The tensor that is there now."""
        module = self.module()
        if module is None:
            return None
        table = getattr(module, self.table)
        # The tables of a ScriptModule have no ``get``.
        found = table[self.name] if self.name in table else None  # noqa: SIM401
        return found if isinstance(found, torch.Tensor) else None


class LooseTensor:
    """A tensor that no module holds. It is held until no other code does."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor: torch.Tensor | None = tensor

    @property
    def tensor(self) -> torch.Tensor | None:
        tensor = self._tensor
        if tensor is not None and sys.getrefcount(tensor) <= _OWN and private.owners(tensor) == 1:
            self._tensor = tensor = None
        return tensor


Place = ModulePlace | LooseTensor


def held_by(root: nn.Module) -> Iterator[tuple[str, torch.Tensor, Kind, ModulePlace]]:
    """Name, tensor, kind and place of each tensor in the modules of ``root`` that has memory."""
    places: dict[int, ModulePlace] = {}
    constants: list[tuple[str, torch.Tensor, Kind, ModulePlace]] = []
    for path, module in root.named_modules():
        reference = weakref.ref(module)
        for table in ("_parameters", "_buffers"):
            for name, tensor in list(getattr(module, table).items()):
                if isinstance(tensor, torch.Tensor):
                    places.setdefault(id(tensor), ModulePlace(reference, table, name))
        for name, value in list(module.__dict__.items()):
            if isinstance(value, torch.Tensor):
                full = f"{path}.{name}" if path else name
                place = ModulePlace(reference, "__dict__", name)
                constants.append((full, value, "constant", place))
    for name, tensor in (*root.named_parameters(), *root.named_buffers()):
        # A lazy parameter has no memory before the first forward.
        if id(tensor) in places and not is_lazy(tensor):
            yield name, tensor, "parameter", places[id(tensor)]
    yield from constants
