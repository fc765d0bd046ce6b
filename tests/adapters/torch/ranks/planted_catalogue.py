"""All planted trainings by name."""

from __future__ import annotations

from tests.adapters.torch.ranks import (
    planted,
    planted_accumulation,
    planted_batch_norm,
    planted_checkpoints,
    planted_clipping,
    planted_collectives,
    planted_fsdp,
    planted_networks,
    planted_non_finite,
    planted_samples,
    planted_tensor_parallel,
    planted_values,
)

FAULTS = planted.FAULTS | planted_tensor_parallel.FAULTS | planted_values.FAULTS
FAULTS |= planted_checkpoints.FAULTS | planted_non_finite.FAULTS
FAULTS |= planted_batch_norm.FAULTS | planted_networks.FAULTS
FAULTS |= planted_collectives.FAULTS | planted_fsdp.FAULTS
FAULTS |= planted_clipping.FAULTS | planted_accumulation.FAULTS
FAULTS |= planted_samples.FAULTS
CONTROLS = planted.CONTROLS | planted_tensor_parallel.CONTROLS | planted_values.CONTROLS
CONTROLS |= planted_batch_norm.CONTROLS | planted_networks.CONTROLS
CONTROLS |= planted_collectives.CONTROLS | planted_fsdp.CONTROLS
CONTROLS |= planted_clipping.CONTROLS | planted_accumulation.CONTROLS
CONTROLS |= planted_samples.CONTROLS
FAULTS_OF_FOUR = planted.FAULTS_OF_FOUR | planted_fsdp.FAULTS_OF_FOUR
CONTROLS_OF_FOUR = planted.CONTROLS_OF_FOUR | planted_collectives.CONTROLS_OF_FOUR
CONTROLS_OF_FOUR |= planted_fsdp.CONTROLS_OF_FOUR
SLOW_CONTROLS = planted.SLOW_CONTROLS
Fault, Training, STEPS = planted.Fault, planted.Training, planted.STEPS
