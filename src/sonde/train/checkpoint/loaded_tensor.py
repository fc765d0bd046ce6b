"""The tensors that ``load_checkpoint`` returns."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from sonde.train.private import plain_results

_DATA: Any = torch.Tensor.data


class LoadedTensor(torch.Tensor):
    """A tensor of a checkpoint with MindSpore's ``asnumpy()``.

    It is a tensor like any other: operations on it return plain tensors, a copy or a file of it is
    a plain tensor, and ``load_state_dict`` accepts it, also with ``assign=True``.
    """

    __torch_function__ = plain_results

    def asnumpy(self) -> NDArray[Any]:
        """The elements as a numpy array that shares the memory; bfloat16 as float32."""
        plain = self._plain().detach()
        return np.asarray((plain.float() if plain.dtype == torch.bfloat16 else plain).numpy())

    @property
    def data(self) -> torch.Tensor:
        own: torch.Tensor = _DATA.__get__(self)
        return own.as_subclass(LoadedTensor)

    @data.setter
    def data(self, value: torch.Tensor) -> None:
        _DATA.__set__(self, value)

    def detach(self) -> LoadedTensor:
        # torch.nn.Parameter, which load_state_dict(assign=True) makes, requires the same type.
        return super().detach().as_subclass(LoadedTensor)

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.Tensor:
        return copy.deepcopy(self._plain(), memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        plain: Any = self._plain()
        return plain.__reduce_ex__(protocol)

    def _plain(self) -> torch.Tensor:
        """The same memory as a plain tensor, or as a plain parameter if this is one."""
        plain = super().detach()
        if isinstance(self, nn.Parameter):
            return nn.Parameter(plain, self.requires_grad)
        return plain.requires_grad_(self.requires_grad)
