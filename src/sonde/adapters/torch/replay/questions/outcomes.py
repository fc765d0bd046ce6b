"""The outcome of an execution as plain numbers, for judging it."""

from __future__ import annotations

import torch

from sonde.adapters.torch import private
from sonde.adapters.torch.replay.averaged_gradients import (
    gradients_for_optimizer,
    is_of_other_rank,
)
from sonde.adapters.torch.replay.execution import Execution
from sonde.adapters.torch.replay.step_record import StepRecord
from sonde.adapters.torch.replay.storage.object_pickle import first_line
from sonde.replay.judgement import Outcome


def outcome_of(record: StepRecord, done: Execution) -> Outcome:
    """Loss, gradients and weights of ``done``, which executed ``record``.

    Norms are computed in float64, and those of gradients that ranks average of the average.
    Gradients are divided by the scale of a GradScaler unless the program has done so.
    """
    names = {
        id(parameter): name
        for call in record.calls
        for name, parameter in call.module.named_parameters()
    }
    total, count, bad = 0.0, 0, []
    with private.unobserved(), torch.no_grad():
        for leaf, gradient in gradients_for_optimizer(record, done).values():
            if gradient is None or id(leaf) not in names:
                continue
            values = _values(gradient)
            wrong = int((~torch.isfinite(values)).sum())
            if wrong:
                bad.append(names[id(leaf)])
            count += wrong
            wide = torch.complex128 if values.is_complex() else torch.float64
            total += float(torch.linalg.vector_norm(values.to(wide))) ** 2
        weights = sum(
            int((~torch.isfinite(leaf)).sum())
            for leaf, _ in done.gradients.values()
            if id(leaf) in names
        )
        losses = [float(each.detach().sum()) for each in done.losses]
    return Outcome(
        loss=sum(losses) if losses else None,
        grad_norm=total**0.5,
        non_finite_gradients=count,
        non_finite_weights=weights,
        bad_parameters=tuple(bad),
        error=None if done.error is None else first_line(done.error),
        is_of_other_rank=is_of_other_rank(record, done),
    )


def _values(gradient: torch.Tensor) -> torch.Tensor:
    if gradient.layout is torch.sparse_coo:
        return gradient.coalesce().values()
    return gradient if gradient.layout is torch.strided else gradient.to_dense()
