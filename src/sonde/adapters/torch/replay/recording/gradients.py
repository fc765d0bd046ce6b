"""The gradients that parameters have before the first backward pass of a step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from sonde.adapters.torch import private
from sonde.adapters.torch.replay.step_record import PriorGradient
from sonde.core.patching import wrap


class PriorGradients:
    """Knows which gradients are zero, and copies those that are neither absent nor zero.

    ``zero_grad(set_to_none=False)`` is noticed, so that a program that uses it pays no copies.
    """

    def __init__(self, parameters: Callable[[], Iterable[torch.Tensor]]) -> None:
        self._parameters = parameters
        self._zeroed: dict[int, tuple[torch.Tensor, int]] = {}
        self._seen: dict[int, torch.Tensor] = {}
        self.found: dict[int, PriorGradient] = {}

    def install(self, undo: ExitStack) -> None:
        def watched(parameters_of: Callable[[Any], Iterable[torch.Tensor]]) -> Any:
            def make(original: Callable[..., Any]) -> Callable[..., Any]:
                def zero_grad(this: Any, set_to_none: bool = True) -> Any:
                    result = original(this, set_to_none)
                    if not set_to_none:
                        self._note_zeroed(parameters_of(this))
                    return result

                return zero_grad

            return make

        optimizer = wrap(torch.optim.Optimizer, "zero_grad", watched(optimizer_parameters), undo)
        module = wrap(nn.Module, "zero_grad", watched(nn.Module.parameters), undo)
        private.hide_from_compiler(optimizer.replacement, module.replacement)

    def take(self) -> None:
        """Keep the gradients of parameters that the step has not differentiated before. Called
        before each backward pass, where no mode observes ops."""
        for parameter in self._parameters():
            gradient = parameter.grad
            if id(parameter) in self._seen:
                continue
            self._seen[id(parameter)] = parameter
            # A tensor over other tensors, as of FSDP2, has no memory that could be copied here; its
            # rank alone must not repeat the step.
            if gradient is None or is_traceable_wrapper_subclass(gradient):
                continue
            known, version = self._zeroed.get(id(gradient), (None, -1))
            is_zero = known is gradient and private.version_of(gradient) == version
            values = None if is_zero else gradient.detach().clone()
            self.found[id(parameter)] = PriorGradient(parameter, values)
        self._zeroed.clear()

    def forget(self) -> None:
        self.found.clear()
        self._seen.clear()

    def _note_zeroed(self, parameters: Iterable[torch.Tensor]) -> None:
        with private.unobserved():
            for parameter in parameters:
                gradient = parameter.grad
                if gradient is not None:
                    self._zeroed[id(gradient)] = (gradient, private.version_of(gradient))


def optimizer_parameters(optimizer: torch.optim.Optimizer) -> Iterable[torch.Tensor]:
    return (each for group in optimizer.param_groups for each in group["params"])
