"""Describes the optimizer of a step."""

from __future__ import annotations

import torch

from sonde.adapters.torch.replay.storage.kept_value_writer import KeptValueWriter
from sonde.adapters.torch.replay.storage.tensor_files import is_storable
from sonde.replay.manifest import StoredGroup, StoredOptimizer
from sonde.replay.stored_values import AnyStoredValue

_OF_TORCH = ("state", "param_groups", "defaults")


def stored_optimizer(
    optimizer: torch.optim.Optimizer | None, values: KeptValueWriter, *, keeps_state: bool
) -> StoredOptimizer | None:
    """The optimizer with its settings, and its state if ``keeps_state``; None for a class that is
    defined inside a function, which another process cannot find."""
    kind = type(optimizer)
    if optimizer is None or "<" in kind.__qualname__:
        return None
    groups, state = [], {}
    position = 0
    for group in optimizer.param_groups:
        parameters: list[int | None] = []
        for parameter in group["params"]:
            parameters.append(values.parameter(parameter) if is_storable(parameter) else None)
            if keeps_state and parameter in optimizer.state:
                kept = dict(optimizer.state[parameter])
                name = f"state_{position}"
                state[str(position)] = values.describe(kept, name, "optimizer")
            position += 1
        settings = {
            name: values.describe(value, name, "optimizer")
            for name, value in group.items()
            if name != "params"
        }
        groups.append(StoredGroup(parameters=parameters, settings=settings))
    path = f"{kind.__module__}:{kind.__qualname__}"
    return StoredOptimizer(
        of=path,
        groups=groups,
        state=state if keeps_state else None,
        attributes=_own_attributes(optimizer, values) if keeps_state else {},
    )


def _own_attributes(
    optimizer: torch.optim.Optimizer, values: KeptValueWriter
) -> dict[str, AnyStoredValue]:
    """The attributes that a class of the program has beside those of torch's optimizers."""
    if type(optimizer).__module__.startswith("torch.optim."):
        return {}
    return {
        name: values.describe(value, name, "optimizer")
        for name, value in vars(optimizer).items()
        if name not in _OF_TORCH and not name.startswith("_")
    }
