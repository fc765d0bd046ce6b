"""``Cell``: a torch module with the methods of MindSpore's networks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from sonde.core.arguments import wrong_value
from sonde.train.precision import cast_floats

AnyCell = TypeVar("AnyCell", bound="CellMethods")
_FLOATS = (torch.float16, torch.bfloat16, torch.float32)


@dataclass(frozen=True, slots=True)
class NamedParameter:
    """A parameter or buffer of a ``Cell`` with its name; the optimizers of ``sonde.train.nn`` take
    it, and torch's take ``data``'s owner, ``parameter``."""

    name: str
    parameter: Tensor

    @property
    def data(self) -> Tensor:
        return self.parameter.detach()

    @property
    def requires_grad(self) -> bool:
        return self.parameter.requires_grad

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.parameter.shape)


class CellMethods(nn.Module):
    """The methods that MindSpore's cells have and torch's modules lack."""

    _float_type: torch.dtype | None = None

    @property
    def cls_name(self) -> str:
        """The name of the class."""
        return type(self).__name__

    def set_train(self: AnyCell, mode: bool = True) -> AnyCell:
        """Training mode, or with False evaluation mode; torch's ``train``."""
        return self.train(mode)

    def get_parameters(self, expand: bool = True) -> Iterator[NamedParameter]:
        """All parameters and buffers; without ``expand`` only those of this module itself."""
        named = (*self.named_parameters(recurse=expand), *self.named_buffers(recurse=expand))
        return (NamedParameter(name, tensor) for name, tensor in named)

    def trainable_params(self, recurse: bool = True) -> list[NamedParameter]:
        """The parameters that are trained."""
        return [each for each in self.get_parameters(recurse) if each.requires_grad]

    def to_float(self: AnyCell, dst_type: torch.dtype) -> AnyCell:
        """Compute this module, and all below it that choose no type themselves, in this type.

        float16 and bfloat16 compute under ``torch.autocast``, and the weights stay as they are;
        float32 switches autocast off. Floating-point inputs are converted.
        """
        if dst_type not in _FLOATS:
            rule = "must be float16, bfloat16 or float32 of torch"
            raise wrong_value("dst_type", "to_float", rule, dst_type)
        self._float_type = dst_type
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        dtype = self._float_type
        if dtype is None:
            return super().__call__(*args, **kwargs)
        args, kwargs = cast_floats(args, dtype), cast_floats(kwargs, dtype)
        with _computing_in(dtype, (*args, *kwargs.values())):
            return super().__call__(*args, **kwargs)


class Cell(CellMethods):
    """A network that defines ``construct`` in place of ``forward``."""

    def construct(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{self.cls_name} defines neither construct nor forward")

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.construct(*args, **kwargs)


def _computing_in(dtype: torch.dtype, inputs: tuple[Any, ...]) -> AbstractContextManager[Any]:
    device = next((each.device.type for each in inputs if isinstance(each, Tensor)), "cpu")
    if dtype == torch.float32:
        return torch.autocast(device, enabled=False)
    return torch.autocast(device, dtype=dtype)
