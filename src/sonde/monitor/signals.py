"""The signals of a step: cheap numbers that tell whether a training is healthy."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

COLUMNS: Final = (
    "step",
    "time",
    "loss",
    "grad_norm",
    "weight_norm",
    "update_ratio",
    "learning_rate",
    "loss_scale",
    "non_finite_gradients",
    "non_finite_weights",
    "step_seconds",
    "optimizer",
    "micro_batches",
    "is_skipped",
    "triggers",
)
"""The numbers of a step, in the order of the file (docs/signals.md). One that is unknown is NaN."""

HISTORICAL: Final = (
    "loss",
    "grad_norm",
    "weight_norm",
    "update_ratio",
    "learning_rate",
    "loss_scale",
    "non_finite_gradients",
    "non_finite_weights",
    "step_seconds",
    "micro_batches",
)
"""The signals that a trigger's expression may name, with those of the steps before."""

_NO_PARAMETERS: npt.NDArray[np.float32] = np.empty(0, np.float32)


@dataclass(slots=True)
class Signals:
    """The signals of one step: of one call of an optimizer's ``step()``.

    ``loss`` is the sum of the scalars that ``backward`` was called on. ``grad_norm`` is the L2 norm
    of all gradients of the optimizer, unscaled; ``gradients`` has it by parameter, in the order of
    the file's parameters, NaN for those without a gradient. ``weight_norm`` and ``update_ratio``
    are NaN until they are known: the ratio is measured when the optimizer has stepped.
    ``optimizer`` numbers the optimizers in the order of their first steps. ``is_skipped``: the
    optimizer did not step, because a GradScaler found infinities or the guard skipped it.
    ``triggers`` is the number of triggers of this step. ``lost_passes``: of the ``micro_batches``
    backward passes, those whose gradients the program cleared before a later one. ``weights`` and
    ``updates`` have the norms of the weights before the step and the ratios of their updates, by
    parameter as ``gradients`` does; the file does not keep them.
    """

    step: int
    time: float = math.nan
    loss: float = math.nan
    grad_norm: float = math.nan
    weight_norm: float = math.nan
    update_ratio: float = math.nan
    learning_rate: float = math.nan
    loss_scale: float = math.nan
    non_finite_gradients: int = 0
    non_finite_weights: int = 0
    step_seconds: float = math.nan
    optimizer: int = 0
    micro_batches: int = 1
    is_skipped: bool = False
    triggers: int = 0
    batch_hash: int = 0
    has_loss: bool = True
    lost_passes: int = 0
    gradients: npt.NDArray[np.float32] = field(default_factory=_NO_PARAMETERS.copy)
    weights: npt.NDArray[np.float32] = field(default_factory=_NO_PARAMETERS.copy)
    updates: npt.NDArray[np.float32] = field(default_factory=_NO_PARAMETERS.copy)

    def numbers(self) -> list[float]:
        """The values of COLUMNS."""
        return [float(getattr(self, name)) for name in COLUMNS]
