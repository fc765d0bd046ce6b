"""Says why a training step left a weight as it was, from what happened in that step."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook


class UpdateReason(NamedTuple):
    """Why a weight did not change: ``kind`` is one of the catalogue, ``cause`` a word of this
    check, ``numbers`` what was measured."""

    kind: str
    cause: str
    numbers: str = ""


@dataclass(slots=True, eq=False)
class ObservedStep:
    """What was observed of one training step: the weights that backward gave a gradient, the rates
    of the weights that an optimizer was about to change, the gradients that it had then, and the
    modules that ran, all by identity."""

    arrived: set[int] = field(default_factory=set)
    rates: dict[int, float] = field(default_factory=dict)
    gradients: dict[int, bool] = field(default_factory=dict)
    ran: set[int] = field(default_factory=set)
    steps: int = 0
    uses_half: bool = False
    device: str = "cpu"

    def _optimizer_steps(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        self.steps += 1
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self.rates[id(parameter)] = float(group.get("lr", 0.0))
                self.gradients[id(parameter)] = _has_values(parameter.grad)

    def _arrives(self, parameter: torch.Tensor) -> None:
        if _has_values(parameter.grad):
            self.arrived.add(id(parameter))

    def _runs(self, module: nn.Module, *_: Any) -> None:
        self.ran.add(id(module))
        is_on = torch.is_autocast_enabled(self.device)
        if is_on and torch.get_autocast_dtype(self.device) is torch.float16:
            self.uses_half = True


@contextmanager
def observed_step(
    network: nn.Module, weights: Mapping[str, nn.Parameter]
) -> Iterator[ObservedStep]:
    """Observe the step in the block. Nothing of the training is changed."""
    device = next((each.device.type for each in weights.values()), "cpu")
    seen = ObservedStep(device=device)
    with ExitStack() as undo:
        for parameter in weights.values():
            handle = parameter.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                seen._arrives
            )
            undo.callback(handle.remove)
        for module in network.modules():
            undo.callback(module.register_forward_pre_hook(seen._runs).remove)
        undo.callback(register_optimizer_step_pre_hook(seen._optimizer_steps).remove)
        yield seen


def why_unchanged(
    parameter: nn.Parameter, holders: Collection[nn.Module], seen: ObservedStep
) -> UpdateReason:
    """The first reason that holds, from the gradient to the optimizer. ``holders``: the modules
    that hold the weight."""
    number = id(parameter)
    found = _not_finite(parameter) or _without_gradient(parameter, holders, seen)
    if found is not None:
        return found
    if not seen.steps:
        return UpdateReason("no-optimizer-step", "no step")
    if number not in seen.rates:
        return UpdateReason("weight-not-in-optimizer", "not in the optimizer")
    rate = seen.rates[number]
    if rate == 0:
        return UpdateReason("learning-rate-zero", "rate 0")
    return too_small(parameter, rate) or UpdateReason(
        "optimizer-skips-noncontiguous", "optimizer", f"rate {rate:g}"
    )


def _not_finite(parameter: nn.Parameter) -> UpdateReason | None:
    for tensor, kind in (
        (parameter.detach(), "weight-not-finite"),
        (parameter.grad, "gradient-not-finite"),
    ):
        values = None if tensor is None else _values(tensor)
        if values is not None and not bool(torch.isfinite(values).all()):
            return UpdateReason(kind, "not finite")
    return None


def _without_gradient(
    parameter: nn.Parameter, holders: Collection[nn.Module], seen: ObservedStep
) -> UpdateReason | None:
    number = id(parameter)
    has_now = _has_values(parameter.grad)
    if number in seen.arrived and not seen.gradients.get(number, has_now):
        return UpdateReason("zero-grad-before-step", "cleared")
    if has_now or number in seen.arrived:
        return None
    if parameter.grad is None:
        has_run = any(id(module) in seen.ran for module in holders)
        return UpdateReason("detached-graph" if has_run else "unused-parameters", "missing")
    if seen.uses_half or parameter.grad.dtype is torch.float16:
        return UpdateReason("half-gradient-underflow", "underflow", "below 6e-8 in float16")
    return UpdateReason("gradient-zero", "zero")


def too_small(parameter: torch.Tensor, rate: float) -> UpdateReason | None:
    """Whether rate times gradient is below half a unit in the last place of every element."""
    if parameter.grad is None or not parameter.is_floating_point():
        return None
    step = rate * (parameter.grad.to_dense() if parameter.grad.is_sparse else parameter.grad)
    wide = step.detach().double().abs()
    limits = torch.finfo(parameter.dtype)
    _, exponent = torch.frexp(parameter.detach().double().abs().clamp(min=limits.tiny))
    unit = limits.eps * torch.exp2(exponent.double() - 1)
    if not wide.numel() or bool((wide > 0.5 * unit).any()):
        return None
    kind = str(parameter.dtype).removeprefix("torch.")
    return UpdateReason(
        "low-precision-update-lost",
        "rate too small for the precision",
        f"{kind}, rate {rate:g}, largest step {float(wide.max()):.3g}, unit in the last place "
        f"{float(unit.median()):.3g}",
    )


def _values(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().coalesce().values() if tensor.is_sparse else tensor.detach()


def _has_values(gradient: torch.Tensor | None) -> bool:
    """Whether there is a gradient with an element other than zero."""
    return gradient is not None and bool(torch.count_nonzero(_values(gradient)))
