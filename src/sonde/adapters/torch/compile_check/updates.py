"""Applies the gradients of each way with a copy of the optimizer and of its parameters."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from sonde.adapters.torch.compile_check import tape
from sonde.adapters.torch.compile_check.distances import comparisons
from sonde.adapters.torch.compile_check.records import GraphCall
from sonde.adapters.torch.compile_check.ways import Ways
from sonde.core.agreement import ResultComparison

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
    twin = copy.deepcopy(optimizer)
    pairs = [
        (theirs, ours)
        for group, copied in zip(optimizer.param_groups, twin.param_groups, strict=True)
        for theirs, ours in zip(group["params"], copied["params"], strict=True)
    ]
    for theirs, ours in pairs:
        gradient = theirs.grad
        if gradient is not None and theirs in way and theirs in eager:
            gradient = _as_the_program_has_it(gradient, eager[theirs], way[theirs])
        if wide:
            ours.data = tape.wide(ours.data)
            gradient = None if gradient is None else tape.wide(gradient)
            _widen_state(twin.state.get(ours, {}))
        ours.grad = None if gradient is None else gradient.detach().to(ours.dtype)
    with torch.no_grad():
        twin.step()
    return {theirs: ours.detach() for theirs, ours in pairs if theirs in way}


def _as_the_program_has_it(
    actual: torch.Tensor, eager: torch.Tensor, way: torch.Tensor
) -> torch.Tensor:
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
