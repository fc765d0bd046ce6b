"""Says why a training step left a weight as it was, from what happened in that step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook


class UpdateReason(NamedTuple):
    """Why a weight did not change: ``cause`` is a word for programs, the others are texts."""

    cause: str
    text: str
    advice: str


@dataclass(slots=True, eq=False)
class ObservedStep:
    """What was observed of one training step: the weights that backward gave a gradient, the rates
    of the weights that an optimizer was about to change, and the gradients that it had then."""

    arrived: set[int] = field(default_factory=set)
    rates: dict[int, float] = field(default_factory=dict)
    gradients: dict[int, bool] = field(default_factory=dict)
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

    def _runs(self, *_: Any) -> None:
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


def why_unchanged(parameter: nn.Parameter, seen: ObservedStep) -> UpdateReason:
    """The first reason that holds, from the gradient to the optimizer."""
    number = id(parameter)
    found = _not_finite(parameter) or _without_gradient(parameter, seen)
    if found is not None:
        return found
    if not seen.steps:
        return UpdateReason(
            "no step",
            "unchanged although it has a gradient: no optimizer stepped",
            "a GradScaler skips the steps whose gradients have NaN or Inf",
        )
    if number not in seen.rates:
        return UpdateReason(
            "not in the optimizer",
            "unchanged although it has a gradient: no optimizer that stepped holds it",
            "give it to the optimizer; was the optimizer made before the layer was replaced?",
        )
    rate = seen.rates[number]
    if rate == 0:
        return UpdateReason("rate 0", "unchanged: its learning rate is 0", "is that a warm-up?")
    return too_small(parameter, rate) or UpdateReason(
        "optimizer",
        f"unchanged although it has a gradient and a rate of {rate:g}",
        "the optimizer does not write to it: is the weight contiguous, does the optimizer skip it?",
    )


def _not_finite(parameter: nn.Parameter) -> UpdateReason | None:
    for tensor, what in ((parameter.detach(), "it has"), (parameter.grad, "its gradient has")):
        values = None if tensor is None else _values(tensor)
        if values is not None and not bool(torch.isfinite(values).all()):
            return UpdateReason(
                "not finite",
                f"unchanged, {what} NaN or Inf",
                "look for the op that made NaN or Inf (sonde run --overflow)",
            )
    return None


def _without_gradient(parameter: nn.Parameter, seen: ObservedStep) -> UpdateReason | None:
    number = id(parameter)
    has_now = _has_values(parameter.grad)
    if number in seen.arrived and not seen.gradients.get(number, has_now):
        return UpdateReason(
            "cleared",
            "unchanged, its gradient was cleared between backward and the optimizer's step",
            "call zero_grad() before backward, or after the step",
        )
    if has_now or number in seen.arrived:
        return None
    if parameter.grad is None:
        return UpdateReason(
            "missing",
            "unchanged, no gradient reached it",
            "is it used in forward, and not behind detach() or no_grad()?",
        )
    if seen.uses_half or parameter.grad.dtype is torch.float16:
        return UpdateReason(
            "underflow",
            "unchanged, its gradient is zero: the backward pass ran in float16, where values below "
            "6e-8 become zero",
            "scale the loss (torch.amp.GradScaler), or use bfloat16",
        )
    return UpdateReason(
        "zero", "unchanged, its gradient is zero", "look for dead activations or a masked loss"
    )


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
        "rate too small for the precision",
        f"unchanged although it has a gradient: with a rate of {rate:g} its steps are below the "
        f"precision of {kind} (largest step {float(wide.max()):.3g}, unit in the last place "
        f"{float(unit.median()):.3g})",
        "raise the learning rate, or keep the weight in float32",
    )


def _values(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().coalesce().values() if tensor.is_sparse else tensor.detach()


def _has_values(gradient: torch.Tensor | None) -> bool:
    """Whether there is a gradient with an element other than zero."""
    return gradient is not None and bool(torch.count_nonzero(_values(gradient)))
