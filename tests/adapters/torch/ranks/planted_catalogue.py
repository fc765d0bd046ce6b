"""All planted trainings by name."""

from __future__ import annotations

from tests.adapters.torch.ranks import planted, planted_tensor_parallel, planted_values

FAULTS = planted.FAULTS | planted_tensor_parallel.FAULTS | planted_values.FAULTS
CONTROLS = planted.CONTROLS | planted_tensor_parallel.CONTROLS | planted_values.CONTROLS
FAULTS_OF_FOUR, CONTROLS_OF_FOUR = planted.FAULTS_OF_FOUR, planted.CONTROLS_OF_FOUR
Training, STEPS = planted.Training, planted.STEPS
