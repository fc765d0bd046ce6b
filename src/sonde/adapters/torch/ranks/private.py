"""The private parts of ``torch.distributed`` that the checks over ranks use."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import distributed_c10d
from torch.nn.parallel import DistributedDataParallel

_RECORDER_SIZE: Final = "TORCH_FR_BUFFER_SIZE"
_RECORDED: Final = 512


def own_groups() -> list[Any]:
    """The process groups of several ranks that the program made, and that this rank is in."""
    world = distributed_c10d._world
    groups = [group for group in world.pg_map if group is not dist.group.WORLD]
    return [group for group in groups if group.size() > 1]


def default_group_name() -> str:
    """The name of the default group, as the flight recorder has it."""
    return str(distributed_c10d._get_default_group().group_name)


def limit_recorder(undo: ExitStack) -> None:
    """Let torch's flight recorder keep 512 collectives, so that it can be read in milliseconds,
    unless the user has chosen how many. It reads the variable when the first group is made."""
    if _RECORDER_SIZE not in os.environ:
        os.environ[_RECORDER_SIZE] = str(_RECORDED)
        undo.callback(os.environ.pop, _RECORDER_SIZE, None)


def recorded_collectives() -> bytes | str:
    """What the flight recorder has, as JSON; empty where torch has none."""
    dump = getattr(torch._C._distributed_c10d, "_dump_fr_trace_json", None)
    found: bytes | str = b"" if dump is None else dump(includeCollectives=True, onlyActive=False)
    return found


def default_store() -> Any:
    """A connection of its own to the store of the default process group: a thread may use it while
    the training uses the group's. The group's own where it cannot be cloned."""
    store: Any = distributed_c10d._get_default_store()
    try:
        return store.clone()
    except (AttributeError, NotImplementedError, RuntimeError):
        return store


def has_saved_tensor_hooks() -> bool:
    """Whether the program takes what ops save for backward: an activation checkpoint, an offload to
    other memory. False where torch does not say it."""
    top = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)
    return top is not None and top(True) is not None


def wrapped_parameters(wrapper: DistributedDataParallel) -> list[torch.Tensor]:
    """The parameters that ``wrapper`` keeps equal: without those that it was told to ignore, such
    as experts of each rank."""
    ignored = getattr(wrapper, "parameters_to_ignore", ())
    return [each for name, each in wrapper.module.named_parameters() if name not in ignored]


def bucket_layout(wrapper: DistributedDataParallel, sizes: Sequence[int]) -> list[list[int]]:
    """The indexes of the parameters in each bucket of ``wrapper``, whose parameters have ``sizes``
    in bytes; empty where torch does not say it."""
    read = getattr(wrapper, "_get_ddp_logging_data", None)
    facts = {} if read is None else read()
    rebuilt = facts.get("rebuilt_per_bucket_param_indices")
    if rebuilt:
        found = [[int(index) for index in each.split()] for each in rebuilt.split(",")]
        known = sorted(index for each in found for index in each)
        return found if known == list(range(len(sizes))) else []
    left = list(range(len(sizes)))
    found = []
    for total in facts.get("bucket_sizes", "").split(","):
        bucket: list[int] = []
        while left and sum(sizes[index] for index in bucket) < int(total or 0):
            bucket.append(left.pop())
        if sum(sizes[index] for index in bucket) != int(total or 0):
            return []  # Buckets of several dtypes.
        found.append(bucket)
    return [] if left else found


def unsharded_parameters(network: nn.Module) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """The parameters that ``fully_shard`` has divided, each with the whole one that forward and
    backward use, in which autograd computes its gradient. Those that have been used only."""
    for module in network.modules():
        state_of = getattr(module, "_get_fsdp_state", None)
        for group in getattr(state_of(), "_fsdp_param_groups", ()) if state_of is not None else ():
            for each in group.fsdp_params:
                whole = getattr(each, "_unsharded_param", None)
                if whole is not None:
                    yield each.sharded_param, whole


def offset_of_rows(parameter: torch.Tensor) -> int | None:
    """The place of the first element that this rank has, in the whole of a DTensor that is divided
    into rows; None if it is laid out in another way."""
    placements: Any = getattr(parameter, "placements", ())
    parts = [each for each in placements if not each.is_replicate()]
    if len(parts) != 1 or type(parts[0]).__name__ != "Shard" or parts[0].dim != 0:
        return None
    from torch.distributed.tensor import _utils  # Takes a while; a program with DTensors has it.

    mesh: Any = parameter.device_mesh  # type: ignore[attr-defined]
    _, offsets = _utils.compute_local_shape_and_global_offset(parameter.shape, mesh, placements)
    rest = parameter.numel() // parameter.shape[0] if parameter.shape[0] else 0
    return int(offsets[0]) * rest
