"""The parameters of a network in memory: the table of ``sonde params``, for scripts."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from rich.console import Console
from torch import nn
from torch.nn.parameter import is_lazy

from sonde.compare.parameter_names import Role
from sonde.compare.weights.checkpoint import Weight
from sonde.compare.weights.listing import parameter_table, totals, totals_text
from sonde.compare.weights.table import ParameterRow, numbers_of
from sonde.core.arguments import check_value_type
from sonde.core.errors import UsageError
from sonde.train.checkpoint.format import weight_of
from sonde.train.ranks import is_sharded

_WIDTH = 160


@dataclass(frozen=True, slots=True)
class ParameterListing:
    """The parameters and buffers of a network; it prints as the table of ``sonde params``.

    ``rows`` has type, shape, whether it is trained, and statistics of each, by name.
    """

    network: str
    rows: Mapping[str, ParameterRow]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    @property
    def trainable(self) -> tuple[str, ...]:
        """The names of the parameters that are trained."""
        return tuple(name for name, row in self.rows.items() if row.trainable)

    @property
    def totals(self) -> dict[str, int]:
        """``count`` and ``elements`` of all, and ``trainable`` and ``trainable_elements``."""
        return totals(self.rows)

    def __str__(self) -> str:
        out = Console(file=io.StringIO(), width=_WIDTH, highlight=False, color_system=None)
        with out.capture() as text:
            out.print(parameter_table(self.rows, is_wide=True))
            out.print(totals_text(self.network, self.rows), soft_wrap=True)
        return "\n".join(line.rstrip() for line in text.get().splitlines())


def list_parameters(network: nn.Module) -> ParameterListing:
    """All parameters and buffers of ``network``, in its order, with statistics of their values.

    Values on the meta device, sparse ones and those of a DTensor, of which a rank holds a part,
    have no statistics.
    """
    check_value_type("network", network, nn.Module, "list_parameters")
    rows = {
        name: ParameterRow(weight, role, weight.trainable, numbers_of(weight))
        for role, named in _tensors(network)
        for name, weight in ((name, _weight(name, tensor)) for name, tensor in named)
    }
    return ParameterListing(type(network).__name__, rows)


def _tensors(network: nn.Module) -> list[tuple[Role, Iterator[tuple[str, torch.Tensor]]]]:
    return [("weight", network.named_parameters()), ("buffer", network.named_buffers())]


def _weight(name: str, tensor: torch.Tensor) -> Weight:
    if is_lazy(tensor):
        raise UsageError(
            f"{name} has no shape before the network was called: call it once with a batch first",
            slug="lazy-parameter",
        )
    trainable = tensor.requires_grad
    is_here = tensor.device.type != "meta" and not is_sharded(tensor)
    if is_here and tensor.layout == torch.strided:
        return weight_of(name, tensor, trainable=trainable)
    dtype = str(tensor.dtype).removeprefix("torch.")
    return Weight(name, dtype, tuple(tensor.shape), None, trainable)
