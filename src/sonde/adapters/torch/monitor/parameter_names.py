"""The names of the parameters that are monitored, and their columns in the file of signals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from sonde.adapters.torch import private
from sonde.monitor.ring_format import MOST_PARAMETERS, without_duplicates


class ParameterColumns:
    """Numbers parameters in the order in which optimizers step them first.

    Parameters are known by torch's id and not kept alive; one that is freed and whose id is used
    again for a parameter of the same name and shape keeps its column, another gets a new one.
    """

    def __init__(self) -> None:
        self._columns: dict[int, int] = {}
        self.names: tuple[str, ...] = ()

    def add(
        self, parameters: Sequence[torch.Tensor], modules: Iterable[tuple[str, nn.Module]]
    ) -> list[str]:
        """Give columns to the parameters that have none; the names of the new columns."""
        new = [each for each in parameters if private.tensor_id(each) not in self._columns]
        if not new:
            return []
        known = _names(modules)
        added: list[str] = []
        for number, each in enumerate(parameters):
            if private.tensor_id(each) in self._columns:
                continue
            self._columns[private.tensor_id(each)] = len(self.names) + len(added)
            added.append(known.get(private.tensor_id(each), f"parameter_{number}"))
        self.names = without_duplicates([*self.names, *added])
        return added

    def names_of(self, parameters: Iterable[torch.Tensor]) -> dict[int, str]:
        """The names of those that have a column, by Python's id."""
        found = ((each, self._columns.get(private.tensor_id(each), -1)) for each in parameters)
        return {id(each): self.names[n] for each, n in found if 0 <= n < len(self.names)}

    def of(self, parameters: Sequence[torch.Tensor]) -> npt.NDArray[np.intp]:
        """The columns; -1 for parameters beyond the most that a file may have."""
        found = [self._columns.get(private.tensor_id(each), -1) for each in parameters]
        return np.array([each if each < MOST_PARAMETERS else -1 for each in found], np.intp)


def _names(modules: Iterable[tuple[str, nn.Module]]) -> dict[int, str]:
    """The names of the parameters in these modules, by id; with the module's if there are two."""
    known = list(modules)
    holders = {id(module) for _, module in known if next(module.parameters(), None) is not None}
    found: dict[int, str] = {}
    for label, module in known:
        prefix = f"{label}." if len(holders) > 1 else ""
        for name, parameter in module.named_parameters():
            found.setdefault(private.tensor_id(parameter), prefix + name)
    return found
