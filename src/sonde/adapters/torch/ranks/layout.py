"""How the tensors of a rank are laid out over ranks.

Asked in this order: the file of ``--placements``, DTensor (FSDP2, TP), the attributes of Megatron,
DDP. What is left is inferred: a parameter that all ranks begin with alike is replicated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from msgspec.structs import replace
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from sonde.adapters.torch import private
from sonde.adapters.torch.ranks.environment import arguments, environment, own_numbers
from sonde.adapters.torch.ranks.megatron import MegatronLayout
from sonde.adapters.torch.ranks.private import wrapped_parameters
from sonde.core.text.rank_numbers import ranks_text
from sonde.ranks.between_samples import has_spots
from sonde.ranks.placement_file import DeclaredPlacements
from sonde.ranks.report import GroupRole, Placement, RankDescription, RankTensor

WORLD = "world"
_BUFFER, _COPY = -1, -2
"""Stand for the ids of buffers and of parameters of copies, which are described by their names."""
_DATA = ("dp", "data", "fsdp", "replicate", "shard", "ddp", "hsdp")
_TENSOR = ("tp", "tensor", "model", "sp", "cp")
_PIPELINE = ("pp", "pipe", "stage")


def group_name(group: Any) -> str:
    """A name that is the same on all ranks of a process group."""
    if group is None or group is dist.group.WORLD:
        return WORLD
    return f"group {group.group_name}"


@dataclass(slots=True)
class TensorPlacements:
    """Finds the tensors of this rank and their placements. ``tensors`` are in the order of
    ``description``; they are found again for each step, so that nothing is kept alive."""

    rank: int = 0
    declared: DeclaredPlacements | None = None
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
        listed = list(parameters)
        wrapped: dict[int, DistributedDataParallel] = {}
        sharded: set[int] = set()
        for label, module in known:
            # A rank may not have run a second network yet that others have: what is optimized tells
            # that there is one.
            inside = {private.tensor_id(each) for each in module.parameters()}
            is_all = all(private.tensor_id(each) in inside for each in listed)
            prefix = "" if len(known) == 1 and is_all else f"{label}."
            for name, parameter in module.named_parameters():
                self._names.setdefault(private.tensor_id(parameter), prefix + plain_name(name))
            for inner in module.modules():
                if isinstance(inner, DistributedDataParallel):
                    for each in wrapped_parameters(inner):
                        wrapped[private.tensor_id(each)] = inner
                elif _is_sharded_by_fsdp(inner):
                    sharded |= {private.tensor_id(each) for each in inner.parameters()}
        wrappers = {id(each.process_group): each.process_group for each in wrapped.values()}
        attributes = MegatronLayout.of(listed, list(wrappers.values()))
        for number, tensor in enumerate(listed):
            key = private.tensor_id(tensor)
            if (key, "") not in self.named:
                name = self._names.get(key, f"parameter_{number}")
                found = self._declared(name)
                if found is None:
                    role: GroupRole | None = "data" if key in sharded else None
                    found = self._found(tensor, wrapped.get(key), attributes, role)
                self.named[key, ""] = _described(name, tensor, found)

    @property
    def inferred(self) -> list[str]:
        """The parameters whose placement is inferred, those of copies too."""
        kinds = ("parameter", "copy")
        return [e.name for e in self.named.values() if e.is_inferred and e.kind in kinds]

    @property
    def replicas(self) -> list[int]:
        """The ids of the parameters that `spot_names` names, in its order."""
        return [number for (number, _), each in self.named.items() if has_spots(each)]

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
                    self.named[key] = replace(
                        owner, name=text, kind="state", dtype=dtype, owner=owner.name
                    )
        return len(self.named) > count

    def learn_buffer(
        self, name: str, buffer: torch.Tensor, group: Any, *, is_declared: bool
    ) -> None:
        """Learn a buffer by its name, because programs assign new tensors. ``is_declared``: all
        ranks of ``group`` are to have the same; else what the file and DTensor say."""
        if (_BUFFER, name) in self.named:
            return
        placements = self._declared(name)
        if placements is None and is_declared:
            placements = (Placement(self._add_group(group, None), "replicated"),)
        if placements is None:
            placements = self._found(buffer, None, None)
        self.named[_BUFFER, name] = replace(_described(name, buffer, placements), kind="buffer")

    def learn_copy(self, name: str, tensor: torch.Tensor, owner: RankTensor) -> None:
        """Learn a parameter of a copy of the network that has ``owner``."""
        local = tuple(getattr(tensor, "_local_tensor", tensor).shape)
        whole = (Placement(WORLD, "replicated"),)
        self.named[_COPY, name] = replace(
            owner,
            name=name,
            kind="copy",
            shape=local,
            dtype=str(tensor.dtype).removeprefix("torch."),
            placements=owner.placements if local == owner.shape else whole,
            is_trainable=False,
            is_inferred=True,
            owner=owner.name,
        )

    def declares(self, role: GroupRole) -> bool:
        """Whether the file of placements has a group with this role."""
        return self.declared is not None and any(e.role == role for e in self.declared.groups)

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
            environment(),
            arguments(),
            own_numbers(rank),
        )

    def _declared(self, name: str) -> tuple[Placement, ...] | None:
        """What the file of placements says about a tensor; None if it says nothing."""
        found = None if self.declared is None else self.declared.of(name)
        if found is None:
            return None
        placements = []
        for each in found:
            ranks = each.group.of(self.rank)
            if len(ranks) > 1:
                label = f"{each.group.name} {ranks_text(ranks)}"
                self.groups[label] = ranks
                self.roles[label] = each.group.role
                placements.append(Placement(label, each.kind, each.dim))
        return tuple(placements)

    def _found(
        self,
        parameter: torch.Tensor,
        wrapper: DistributedDataParallel | None,
        attributes: MegatronLayout | None,
        role: GroupRole | None = None,
    ) -> tuple[Placement, ...] | None:
        """What torch and the attributes of the parameter say; None if that is nothing. ``role``:
        of the dimensions of a mesh that have no names."""
        mesh = getattr(parameter, "device_mesh", None)
        if mesh is not None and mesh.size() > 1:
            return tuple(self._mesh_placements(parameter, mesh, role))
        placements = []
        if attributes is not None:
            for group, role, kind, dim in attributes.placements(parameter):
                placements.append(Placement(self._add_group(group, role), kind, dim))
        if wrapper is not None:
            group = self._add_group(wrapper.process_group, "data")
            if all(each.group != group for each in placements):
                placements.append(Placement(group, "replicated"))
        return tuple(placements) or None

    def _mesh_placements(
        self, parameter: Any, mesh: Any, role: GroupRole | None
    ) -> Iterator[Placement]:
        names = mesh.mesh_dim_names or ()
        for number, placement in enumerate(parameter.placements):
            label = names[number] if number < len(names) else ""
            group = self._add_group(mesh.get_group(number), _role(label) if label else role)
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
    """Those that are in no other of them, with their labels: the second ``Linear`` is
    ``Linear_2``, so that no two parameters have one name."""
    inner = {id(each) for module in modules for each in module.modules() if each is not module}
    counts: Counter[str] = Counter()
    found = []
    for module, label in modules.items():
        if id(module) not in inner:
            counts[label] += 1
            found.append((label if counts[label] == 1 else f"{label}_{counts[label]}", module))
    return found


def _is_sharded_by_fsdp(module: nn.Module) -> bool:
    """Whether ``fully_shard`` was called on it. Imports nothing: FSDP takes a while."""
    return any(each.__name__ == "FSDPModule" for each in type(module).__mro__)


def _described(
    name: str, parameter: torch.Tensor, placements: tuple[Placement, ...] | None
) -> RankTensor:
    local = getattr(parameter, "_local_tensor", parameter)
    return RankTensor(
        name,
        "parameter",
        tuple(local.shape),
        str(parameter.dtype).removeprefix("torch."),
        (Placement(WORLD, "replicated"),) if placements is None else placements,
        parameter.requires_grad,
        placements is None,
    )


def plain_name(name: str) -> str:
    """The name of a parameter or module without what wrappers add."""
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
