"""Gives a network that was built anew the weights of a captured step."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from sonde.replay.errors import ReplayError
from sonde.replay.manifest import StoredModule

_SHOWN = 5


def give_weights(module: nn.Module, stored: StoredModule, tensors: Sequence[torch.Tensor]) -> None:
    """Give a module that was built anew the weights and buffers of the step.

    Names and shapes must be those of the step: else a ReplayError names the first that differ.
    """
    parameters = dict(module.named_parameters())
    buffers = dict(module.named_buffers())
    problems = _differences(
        {each.name: tensors[each.index] for each in stored.parameters}, parameters
    )
    problems += _differences({n: tensors[i] for n, i in stored.buffers.items()}, buffers)
    if problems:
        more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        raise ReplayError(
            f"{type(module).__name__} does not fit the captured step: "
            f"{'; '.join(problems[:_SHOWN])}{more}",
            slug="module-differs",
        )
    for each in stored.parameters:
        values = tensors[each.index]
        parameter = parameters[each.name]
        parameter.data = values.detach()
        parameter.requires_grad_(values.requires_grad)
    for name, index in stored.buffers.items():
        owner, _, attribute = name.rpartition(".")
        module.get_submodule(owner)._buffers[attribute] = tensors[index]


def _differences(
    stored: dict[str, torch.Tensor], built: dict[str, torch.Tensor] | dict[str, nn.Parameter]
) -> list[str]:
    found = [f"it has no {name}" for name in stored if name not in built]
    found += [f"{name} is not in the step" for name in built if name not in stored]
    found += [
        f"{name} has the shape {list(built[name].shape)}, in the step {list(values.shape)}"
        for name, values in stored.items()
        if name in built and built[name].shape != values.shape
    ]
    return found
