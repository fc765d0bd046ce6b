"""The checks that compare the ranks of one step; each file has one."""

from __future__ import annotations

from sonde.ranks.check import StepCheck
from sonde.ranks.checks import (
    accumulation,
    activations,
    clipping,
    coverage,
    decisions,
    environment,
    gradients_exchanged,
    loss_weights,
    non_finite,
    odd_rank,
    op_sequence,
    random_states,
    reduction,
    replicas,
    reported_loss,
    same_batch,
    shards,
    tensor_batches,
)

STEP_CHECKS: tuple[StepCheck, ...] = (
    environment.CHECK,
    replicas.CHECK,
    shards.CHECK,
    random_states.CHECK,
    tensor_batches.CHECK,
    gradients_exchanged.CHECK,
    reduction.CHECK,
    coverage.CHECK,
    accumulation.CHECK,
    same_batch.CHECK,
    activations.CHECK,
    op_sequence.CHECK,
    clipping.CHECK,
    decisions.CHECK,
    non_finite.CHECK,
    loss_weights.CHECK,
    reported_loss.CHECK,
    odd_rank.CHECK,
)
"""In the order in which findings of one step are reported: causes before their effects."""
