"""Small trainings of every kind. Each returns all its losses and final weights."""

from __future__ import annotations

from tests.adapters.torch import loop_trainings, network_trainings, tensor_trainings
from tests.adapters.torch.fitting import Training

TRAININGS: dict[str, Training] = {
    **network_trainings.TRAININGS,
    **loop_trainings.TRAININGS,
    **tensor_trainings.TRAININGS,
}
