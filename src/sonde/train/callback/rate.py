"""``LearningRateScheduler`` and ``ReduceLROnPlateau``: change the learning rate."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import lr_scheduler

from sonde.core.arguments import check_non_negative_float, check_non_negative_int, check_value_type
from sonde.core.callback import Callback, RunContext
from sonde.core.errors import UsageError
from sonde.train.callback.best import monitored_value, resolved_mode


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
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate


class ReduceLROnPlateau(Callback):
    """Multiplies the learning rate by ``factor`` after ``patience`` epochs without improvement.

    It uses ``torch.optim.lr_scheduler.ReduceLROnPlateau`` with absolute ``min_delta``; as in
    MindSpore, the ``patience``-th epoch without improvement already lowers the rate. ``cooldown``
    epochs after a change do not count, ``min_lr`` is the lower limit. NaN is no improvement.
    """

    def __init__(
        self,
        monitor: str = "eval_loss",
        factor: float = 0.1,
        patience: int = 10,
        verbose: bool = False,
        mode: str = "auto",
        min_delta: float = 1e-4,
        cooldown: int = 0,
        min_lr: float = 0,
    ) -> None:
        owner = "ReduceLROnPlateau"
        check_value_type("factor", factor, (int, float), owner)
        check_value_type("min_delta", min_delta, (int, float), owner)
        if not 0 <= factor < 1:
            raise UsageError(
                f"factor lowers the rate: 0 <= factor < 1, not {factor}", slug="factor"
            )
        self._monitor = monitor
        self._verbose = verbose
        self._options: dict[str, Any] = {
            "mode": resolved_mode(mode, monitor),
            "factor": factor,
            "patience": max(check_non_negative_int(patience, "patience", owner), 1) - 1,
            "threshold": abs(min_delta),
            "threshold_mode": "abs",
            "cooldown": check_non_negative_int(cooldown, "cooldown", owner),
            "min_lr": check_non_negative_float(min_lr, "min_lr", owner),
            "eps": 0.0,
        }
        self._scheduler: lr_scheduler.ReduceLROnPlateau | None = None

    def on_train_begin(self, run_context: RunContext) -> None:
        optimizer = run_context.original_args().optimizer
        parameter_groups(optimizer, "ReduceLROnPlateau")
        self._scheduler = lr_scheduler.ReduceLROnPlateau(optimizer, **self._options)

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        arguments = run_context.original_args()
        value = monitored_value(arguments, self._monitor)
        if value is None or self._scheduler is None:
            return
        before = [float(group["lr"]) for group in arguments.optimizer.param_groups]
        self._scheduler.step(value)
        after = [float(group["lr"]) for group in arguments.optimizer.param_groups]
        if self._verbose and after != before:
            print(f"Epoch {arguments.cur_epoch_num}: learning rate {before} lowered to {after}")

    def state_dict(self) -> dict[str, Any]:
        return {} if self._scheduler is None else dict(self._scheduler.state_dict())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if self._scheduler is not None:
            self._scheduler.load_state_dict(state)


def parameter_groups(optimizer: Any, owner: str) -> list[dict[str, Any]]:
    """The optimizer's parameter groups; an error if the run has no optimizer."""
    if optimizer is None:
        raise UsageError(f"{owner} needs the optimizer of the run", slug="no-optimizer")
    groups: list[dict[str, Any]] = optimizer.param_groups
    return groups
