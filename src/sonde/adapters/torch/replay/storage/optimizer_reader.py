"""Builds the optimizer of a captured step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from sonde.adapters.torch.replay.storage.value_reader import find_class
from sonde.replay.manifest import StoredOptimizer
from sonde.replay.stored_values import AnyStoredValue


def built_optimizer(
    stored: StoredOptimizer,
    parameter_at: Callable[[int], torch.Tensor],
    build: Callable[[AnyStoredValue], Any],
    *,
    where: str,
) -> torch.optim.Optimizer | None:
    """The optimizer with its settings, and its state if that was kept; None if it cannot be built
    from them. ``where``: the captured step, for errors."""
    kind: Any = find_class(stored.of, where)
    if not isinstance(kind, type) or not issubclass(kind, torch.optim.Optimizer):
        return None
    positions: list[torch.Tensor | None] = []
    groups = []
    for group in stored.groups:
        members = [None if each is None else parameter_at(each) for each in group.parameters]
        positions += members
        settings = {name: build(value) for name, value in group.settings.items()}
        groups.append({"params": [each for each in members if each is not None], **settings})
    optimizer = _made(kind, groups)
    if optimizer is None:
        return None
    vars(optimizer).update({name: build(each) for name, each in stored.attributes.items()})
    for position, values in (stored.state or {}).items():
        if position.isdigit() and int(position) < len(positions):
            parameter = positions[int(position)]
            if parameter is not None:
                optimizer.state[parameter] = build(values)
    return optimizer


def _made(kind: Any, groups: list[dict[str, Any]]) -> torch.optim.Optimizer | None:
    """An optimizer of the class ``kind``; a class with arguments of its own is not initialised by
    its own code. None if it cannot be built: the step does not need it."""
    try:
        made: torch.optim.Optimizer = kind([dict(group) for group in groups])
    except Exception:
        try:
            made = kind.__new__(kind)
            torch.optim.Optimizer.__init__(made, groups, {})
        except Exception:
            return None
    return made
