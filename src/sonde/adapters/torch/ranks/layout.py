"""How the tensors of a rank are laid out over ranks: from DDP, DTensor, or inferred."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from msgspec.structs import replace
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from sonde.adapters.torch import private
from sonde.ranks.report import GroupRole, Placement, RankDescription, RankTensor

WORLD = "world"
_DATA = ("dp", "data", "fsdp", "replicate", "shard", "ddp", "hsdp")
_TENSOR = ("tp", "tensor", "model", "sp", "cp")
_PIPELINE = ("pp", "pipe", "stage")
_ENVIRONMENT = (
    *("OMP_NUM_THREADS", "CUBLAS_WORKSPACE_CONFIG", "NCCL_ALGO", "TORCH_ALLOW_TF32_OVERRIDE"),
    *("PYTHONHASHSEED", "TORCH_NCCL_NAN_CHECK"),
)


def group_name(group: Any) -> str:
    """A name that is the same on all ranks of a process group."""
    if group is None or group is dist.group.WORLD:
        return WORLD
    return f"group {group.group_name}"


@dataclass(slots=True)
class TensorPlacements:
    """Finds the tensors of this rank and their placements. ``tensors`` are in the order of
    ``description``; they are found again for each step, so that nothing is kept alive."""

    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)
    roles: dict[str, GroupRole] = field(default_factory=dict)
    named: dict[tuple[int, str], RankTensor] = field(default_factory=dict)
    _names: dict[int, str] = field(default_factory=dict)

    def learn(
        self, modules: Iterable[tuple[str, nn.Module]], parameters: Iterable[torch.Tensor]
    ) -> None:
        """Learn the layout of these parameters. ``modules``: the outermost ones that have run."""
        self._add_group(None, None)
        known = list(modules)
        wrapped: dict[int, DistributedDataParallel] = {}
        for label, module in known:
            prefix = f"{label}." if len(known) > 1 else ""
            for name, parameter in module.named_parameters():
                self._names.setdefault(private.tensor_id(parameter), prefix + _plain_name(name))
            for inner in module.modules():
                if isinstance(inner, DistributedDataParallel):
                    for parameter in inner.parameters():
                        wrapped[private.tensor_id(parameter)] = inner
        for number, tensor in enumerate(parameters):
            key = private.tensor_id(tensor)
            if (key, "") not in self.named:
                name = self._names.get(key, f"parameter_{number}")
                self.named[key, ""] = self._tensor(name, tensor, wrapped.get(key))

    def learn_states(self, optimizer: torch.optim.Optimizer) -> bool:
        """Learn the tensors that ``optimizer`` keeps for its parameters, which are laid out as
        these are; whether there are new ones."""
        count = len(self.named)
        for parameter, state in list(optimizer.state.items()):
            if not isinstance(parameter, torch.Tensor) or not isinstance(state, dict):
                continue
            owner = self.of(parameter)
            for name, value in state.items() if owner is not None else ():
                key = (private.tensor_id(parameter), str(name))
                is_alike = isinstance(value, torch.Tensor) and value.shape == parameter.shape
                if owner is not None and is_alike and key not in self.named:
                    dtype = str(value.dtype).removeprefix("torch.")
                    text = f"{name} of {owner.name}"
                    self.named[key] = replace(owner, name=text, kind="state", dtype=dtype)
        return len(self.named) > count

    def of(self, parameter: torch.Tensor) -> RankTensor | None:
        """The description of a parameter, if it has one."""
        return self.named.get((private.tensor_id(parameter), ""))

    def description(self, rank: int, world_size: int) -> RankDescription:
        return RankDescription(
            rank,
            world_size,
            dict(self.groups),
            dict(self.roles),
            tuple(self.named.values()),
            _environment(self.named.values()),
        )

    def _tensor(
        self, name: str, parameter: torch.Tensor, wrapper: DistributedDataParallel | None
    ) -> RankTensor:
        local = getattr(parameter, "_local_tensor", parameter)
        placements: tuple[Placement, ...]
        inferred = False
        mesh = getattr(parameter, "device_mesh", None)
        if mesh is not None and mesh.size() > 1:
            placements = tuple(self._mesh_placements(parameter, mesh))
        elif wrapper is not None:
            group = self._add_group(wrapper.process_group, "data")
            placements = (Placement(group, "replicated"),)
        else:
            inferred = True
            placements = (Placement(WORLD, "replicated"),)
        return RankTensor(
            name,
            "parameter",
            tuple(local.shape),
            str(parameter.dtype).removeprefix("torch."),
            placements,
            parameter.requires_grad,
            inferred,
        )

    def _mesh_placements(self, parameter: Any, mesh: Any) -> Iterator[Placement]:
        names = mesh.mesh_dim_names or ()
        for number, placement in enumerate(parameter.placements):
            label = names[number] if number < len(names) else ""
            group = self._add_group(mesh.get_group(number), _role(label))
            kind = type(placement).__name__
            if kind == "Replicate":
                yield Placement(group, "replicated")
            elif kind == "Partial":
                yield Placement(group, "partial")
            else:
                yield Placement(group, "sharded", int(getattr(placement, "dim", 0)))

    def _add_group(self, group: Any, role: GroupRole | None) -> str:
        name = group_name(group)
        if name not in self.groups:
            self.groups[name] = tuple(dist.get_process_group_ranks(group))
        if role is not None:
            self.roles.setdefault(name, role)
        return name


def outermost(modules: Mapping[nn.Module, str]) -> list[tuple[str, nn.Module]]:
    """Those that are in no other of them, with their labels."""
    inner = {id(each) for module in modules for each in module.modules() if each is not module}
    return [(label, module) for module, label in modules.items() if id(module) not in inner]


def _plain_name(name: str) -> str:
    """The name of a parameter without what wrappers add."""
    parts = name.split(".")
    return ".".join(
        part for part in parts if part not in ("module", "_orig_mod", "_fsdp_wrapped_module")
    )


def _role(label: str) -> GroupRole | None:
    text = label.lower()
    if any(word in text for word in _PIPELINE):
        return "pipeline"
    if any(word in text for word in _DATA):
        return "data"
    return "tensor" if any(word in text for word in _TENSOR) else None


def _environment(tensors: Iterable[RankTensor]) -> dict[str, str]:
    """What must be the same on all ranks."""
    found = {
        "the version of torch": str(torch.__version__),
        "the version of Python": platform.python_version(),
        "the default dtype": str(torch.get_default_dtype()),
        "deterministic algorithms": str(torch.are_deterministic_algorithms_enabled()),
        "float32 matmul precision": torch.get_float32_matmul_precision(),
        "the number of parameters": str(sum(1 for _ in tensors)),
    }
    return {**found, **{name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}}
