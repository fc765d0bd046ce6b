"""``LearningRateScheduler``: a function of rate and step."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from sonde.core.callback import Callback, RunContext
from sonde.core.errors import UsageError


class LearningRateScheduler(Callback):
    """Sets the learning rate of every parameter group to ``function(rate, step)`` after each step.

    ``step`` is the number of steps done. The function's result must be a finite number.
    """

    def __init__(self, learning_rate_function: Callable[[float, int], float]) -> None:
        if not callable(learning_rate_function):
            raise UsageError(
                "LearningRateScheduler needs a function of rate and step", slug="not-callable"
            )
        self._function = learning_rate_function

    def on_train_step_end(self, run_context: RunContext) -> None:
        arguments = run_context.original_args()
        for group in parameter_groups(arguments.optimizer, "LearningRateScheduler"):
            rate = float(self._function(float(group["lr"]), arguments.cur_step_num))
            if not math.isfinite(rate):
                raise UsageError(
                    f"the learning rate for step {arguments.cur_step_num} is {rate}",
                    slug="learning-rate",
                )
            set_rate(group, rate)


def parameter_groups(optimizer: Any, owner: str) -> list[dict[str, Any]]:
    """The optimizer's groups; a clear error where the run was given no optimizer."""
    if optimizer is None:
        raise UsageError(f"{owner} needs the optimizer of the run", slug="no-optimizer")
    groups: list[dict[str, Any]] = optimizer.param_groups
    return groups


def set_rate(group: dict[str, Any], rate: float) -> None:
    """Set a group's rate; a rate held as a tensor keeps being that tensor."""
    if isinstance(group["lr"], torch.Tensor):
        group["lr"].fill_(rate)
    else:
        group["lr"] = rate
