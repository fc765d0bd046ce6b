"""Applies the gradients of each way with a copy of the optimizer and of its parameters."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from sonde.adapters.torch.compile_check import tape
from sonde.adapters.torch.compile_check.agreement import ResultComparison
from sonde.adapters.torch.compile_check.distances import comparisons
from sonde.adapters.torch.compile_check.records import GraphCall
from sonde.adapters.torch.compile_check.ways import Ways

Gradients = Mapping[torch.Tensor, torch.Tensor]
"""Gradients by the parameter they belong to."""

_PROPORTIONAL = 1e-2


def updated_weights(
    optimizer: torch.optim.Optimizer, calls: Sequence[tuple[GraphCall, Ways]], epsilon: float
) -> list[ResultComparison]:
    """Compare the weights after the optimizer's step with the gradients of each way.

    Raises what the step of a copy of ``optimizer`` raises.
    """
    names: dict[torch.Tensor, str] = {
        value: name
        for call, _ in calls
        for value, name in zip(call.inputs, call.input_names, strict=False)
        if isinstance(value, torch.nn.Parameter)
    }
    gradients: dict[str, dict[torch.Tensor, torch.Tensor]] = {}
    for call, ways in calls:
        for way, results in ways.results.items():
            sums = gradients.setdefault(way, {})
            for number, gradient in results.gradients.items():
                parameter = call.inputs[number]
                if isinstance(parameter, torch.nn.Parameter):
                    known = sums.get(parameter)
                    sums[parameter] = gradient if known is None else known + gradient
    after = {
        way: updated(optimizer, gradients["eager"], found, wide=way == "reference")
        for way, found in gradients.items()
    }
    weights = {each: names.get(each, "weight") for each in after.get("reference", {})}
    return comparisons("weight", weights, after, epsilon)


def updated(
    optimizer: torch.optim.Optimizer, eager: Gradients, way: Gradients, *, wide: bool = False
) -> dict[torch.Tensor, torch.Tensor]:
    """The parameters after a step with the gradients of ``way``, by the parameter as it is now.

    Between backward and the optimizer a program may clip, unscale or accumulate gradients. Its
    ``.grad`` is compared with the ``eager`` gradients: a common factor is applied to those of
    ``way`` too, anything else is kept and the difference of the ways added to it.
    """
    optimizer_copy = copy.deepcopy(optimizer)
    pairs = [
        (original, copied)
        for group, group_copy in zip(
            optimizer.param_groups, optimizer_copy.param_groups, strict=True
        )
        for original, copied in zip(group["params"], group_copy["params"], strict=True)
    ]
    for original, copied in pairs:
        gradient = original.grad
        if gradient is not None and original in way and original in eager:
            gradient = _adjusted(gradient, eager[original], way[original])
        if wide:
            copied.data = tape.wide(copied.data)
            gradient = None if gradient is None else tape.wide(gradient)
            _widen_state(optimizer_copy.state.get(copied, {}))
        copied.grad = None if gradient is None else gradient.detach().to(copied.dtype)
    with torch.no_grad():
        optimizer_copy.step()
    return {original: copied.detach() for original, copied in pairs if original in way}


def _adjusted(actual: torch.Tensor, eager: torch.Tensor, way: torch.Tensor) -> torch.Tensor:
    wide, base = actual.to(torch.float64), eager.to(torch.float64)
    square = float((base * base).sum())
    factor = float((wide * base).sum()) / square if square else 1.0
    off = float((wide - factor * base).norm())
    if off <= _PROPORTIONAL * float(wide.norm()):
        return factor * way.to(torch.float64)
    return wide + (way.to(torch.float64) - base)


def _widen_state(state: dict[str, Any]) -> None:
    for name, value in state.items():
        if isinstance(value, torch.Tensor) and name != "step":
            state[name] = tape.wide(value)
