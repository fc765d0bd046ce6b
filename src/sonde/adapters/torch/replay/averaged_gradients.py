"""Gradients that ranks average: those that the optimizer would get from an execution of one rank.

One rank is executed, without the others. What the others added is known from the captured step, if
that has the average and what this rank computed itself: ``average - own / ranks``.
"""

from __future__ import annotations

import torch

from sonde.adapters.torch import private
from sonde.adapters.torch.replay.comparison import difference
from sonde.adapters.torch.replay.execution import Execution
from sonde.adapters.torch.replay.step_record import AveragedGradient, StepRecord

Gradients = dict[int, tuple[torch.Tensor, torch.Tensor | None]]


def note_own_gradients(record: StepRecord, done: Execution) -> None:
    """Note what this rank computed in ``done``, which executed ``record`` as it was, beside the
    averages that parameters have now."""
    if record.averaged_over > 1 and done.was_run and done.error is None:
        for key, (parameter, own) in done.gradients.items():
            record.averaged[key] = AveragedGradient(own, parameter.grad)


def gradients_for_optimizer(record: StepRecord, done: Execution) -> Gradients:
    """The gradients of ``done`` as the optimizer gets them, by the id of the parameter.

    If ranks average: the average of the training, changed by what this rank computes differently.
    What the other ranks computed stays as it was. Without a note of what this rank computed in the
    training, its own gradients.
    """
    if record.averaged_over <= 1:
        return done.gradients
    with private.unobserved(), torch.no_grad():
        return {
            key: (parameter, _changed(own, record.averaged.get(key), record.averaged_over))
            for key, (parameter, own) in done.gradients.items()
        }


def averages(record: StepRecord) -> dict[int, torch.Tensor | None]:
    """The averages that the optimizer of the training used, by the id of the parameter."""
    return {key: each.average for key, each in record.averaged.items()}


def is_of_other_rank(record: StepRecord, done: Execution) -> bool:
    """Whether gradients are not finite although this rank computes finite ones."""
    with private.unobserved():
        found = [_is_finite(each) for _, each in done.gradients.values()]
        used = [_is_finite(each) for _, each in gradients_for_optimizer(record, done).values()]
    return all(found) and not all(used)


def _changed(
    own: torch.Tensor | None, before: AveragedGradient | None, ranks: int
) -> torch.Tensor | None:
    if before is None or before.own is None or before.average is None or own is None:
        return own
    if difference("parameter gradient", "", before.own, own) is None:
        return before.average
    now, was, average = _dense(own), _dense(before.own), _dense(before.average)
    if now.shape != was.shape:
        return own
    wide = torch.promote_types(now.dtype, torch.float64)
    changed = average.to(wide) + (now.to(wide) - was.to(wide)) / ranks
    # Where this rank spoiled the average, the part of the others is not known.
    return torch.where(torch.isfinite(was), changed, now.to(wide)).to(now.dtype)


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.layout is torch.strided else tensor.to_dense()


def _is_finite(tensor: torch.Tensor | None) -> bool:
    return tensor is None or bool(torch.isfinite(_dense(tensor)).all())
