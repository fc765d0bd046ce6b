"""Lets an optimizer step without changing anything."""

from __future__ import annotations

from contextlib import ExitStack

import torch

from sonde.adapters.torch.debugging.optimizers import parameters_of


def withhold_gradients(optimizer: torch.optim.Optimizer) -> ExitStack:
    """Take the gradients away from the parameters of ``optimizer``; closing the result gives them
    back. Optimizers do not change a parameter without a gradient, nor their state of it."""
    undo = ExitStack()
    for parameter in parameters_of(optimizer):
        if parameter.grad is not None:
            undo.callback(setattr, parameter, "grad", parameter.grad)
            parameter.grad = None
    return undo
