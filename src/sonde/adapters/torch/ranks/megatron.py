"""Placements from the attributes that Megatron gives to parameters.

``tensor_model_parallel`` and ``partition_dim``: sharded over the tensor-parallel ranks;
``sequence_parallel``: replicated over them. ``allreduce = False``: an expert, which is not the same
on the data-parallel ranks. A parameter without these attributes, in a model where others have
them, is replicated.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from sonde.adapters.torch.ranks.private import own_groups
from sonde.ranks.report import GroupRole, PlacementKind

_STATE = ("megatron.core.parallel_state", "megatron.mpu", "mpu")
_ATTRIBUTES = ("tensor_model_parallel", "sequence_parallel", "partition_dim")


@dataclass(frozen=True, slots=True)
class MegatronLayout:
    """``tensor`` and ``data``: the groups of this rank, None for one that is not known."""

    tensor: Any | None
    data: Any | None

    @classmethod
    def of(
        cls, parameters: Sequence[torch.Tensor], wrapped: Sequence[Any]
    ) -> MegatronLayout | None:
        """The layout of a model of which some parameter has such an attribute; None for others.
        ``wrapped``: the groups of the DDP wrappers, which are not the tensor-parallel one."""
        if not any(hasattr(each, name) for each in parameters for name in _ATTRIBUTES):
            return None
        tensor = _group("get_tensor_model_parallel_group")
        data = _group("get_data_parallel_group")
        if tensor is None:
            known = [set(dist.get_process_group_ranks(each)) for each in wrapped]
            others = [
                each
                for each in own_groups()
                if set(dist.get_process_group_ranks(each)) not in known
            ]
            tensor = others[0] if len(others) == 1 else dist.group.WORLD if not known else None
        return cls(tensor, data)

    def placements(
        self, parameter: torch.Tensor
    ) -> Iterator[tuple[Any, GroupRole, PlacementKind, int]]:
        """Group, role, kind and dimension of each placement."""
        if self.tensor is not None:
            is_sharded = bool(getattr(parameter, "tensor_model_parallel", False))
            dim = max(int(getattr(parameter, "partition_dim", 0)), 0)
            kind: PlacementKind = "sharded" if is_sharded else "replicated"
            yield self.tensor, "tensor", kind, dim if is_sharded else 0
        if self.data is not None and getattr(parameter, "allreduce", True):
            yield self.data, "data", "replicated", 0


def _group(function: str) -> Any | None:
    """A group that Megatron knows, if it runs."""
    for name in _STATE:
        find = getattr(sys.modules.get(name), function, None)
        if find is None:
            continue
        try:
            group = find()
        except (AssertionError, RuntimeError, ValueError):  # It is not initialised.
            continue
        if isinstance(group, dist.ProcessGroup) and group.size() > 1:
            return group
    return None
