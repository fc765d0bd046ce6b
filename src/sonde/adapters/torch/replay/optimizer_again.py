"""Lets the optimizer of a captured step step again, with the gradients of the training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from sonde.adapters.torch import private
from sonde.adapters.torch.replay.comparison import difference
from sonde.adapters.torch.replay.recording.gradients import optimizer_parameters
from sonde.adapters.torch.replay.saved_state import SavedState, SavedTensor
from sonde.adapters.torch.replay.step_record import StepRecord
from sonde.core.interruption import pass_on


def step_optimizer(record: StepRecord, saved: SavedState) -> str:
    """Call ``step()`` of the record's optimizer; returns why that failed, or an empty text.

    The gradients in place are those that were computed. Where they are not those of the training
    (averaged over ranks, for example), those of the training in ``saved`` take their place.
    Weights and the optimizer's state are afterwards as they were.
    """
    optimizer = record.optimizer
    if optimizer is None:
        return "it cannot be built from its settings"
    with private.unobserved():
        for leaf, gradient in saved.gradients.values():
            if difference("parameter gradient", "", gradient, leaf.grad) is not None:
                leaf.grad = None if gradient is None else gradient.clone()
    with _kept(optimizer):
        try:
            optimizer.step()
        except Exception as error:  # an optimizer of the program may fail in any way
            pass_on(error)
            return f"{type(error).__name__}: {error}"
    return ""


@contextmanager
def _kept(optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Restore the weights and the state after this block."""
    with private.unobserved():
        parameters = list(optimizer_parameters(optimizer))
        weights = [SavedTensor.of(each) for each in parameters]
        states = {each: optimizer.state[each] for each in parameters if each in optimizer.state}
        for parameter, state in states.items():
            optimizer.state[parameter] = {
                name: value.clone() if isinstance(value, torch.Tensor) else value
                for name, value in state.items()
            }
        groups = [dict(group) for group in optimizer.param_groups]
    try:
        yield
    finally:
        with private.unobserved(), torch.no_grad():
            for weight in weights:
                weight.restore()
            optimizer.state.clear()
            optimizer.state.update(states)
            for group, before in zip(optimizer.param_groups, groups, strict=True):
                group.update(before)
