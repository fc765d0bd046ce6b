"""Optimizers whose learning rate follows a schedule by itself, as in MindSpore.

    optimizer = follow_schedule(torch.optim.SGD(net.parameters(), lr=WarmUpLR(0.1, 100)))

After each ``step()`` the optimizer sets the rate of the next one. The number of steps done is in
its parameter groups, so that ``state_dict`` has it, and a step that a loss scale drops does not
count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from torch.optim import Optimizer

from sonde.core.arguments import wrong_value
from sonde.train.learning_rate import LearningRateSchedule, ListedLR, Rates, schedules_of

STEPS_DONE = "schedule_step"
"""The key of a parameter group under which the number of steps done is kept."""

AnyOptimizer = TypeVar("AnyOptimizer", bound=Optimizer)


def follow_schedule(optimizer: AnyOptimizer, rates: Rates | None = None) -> AnyOptimizer:
    """Make ``optimizer`` set its own rates; returns the optimizer.

    ``rates`` is a schedule, a schedule for each parameter group, or a list of rates. Without it,
    the schedules are those that the optimizer was created with: ``lr=WarmUpLR(0.1, 100)``.
    """
    groups = optimizer.param_groups
    if rates is None:
        rates = [_own_schedule(group["lr"]) for group in groups]
    elif STEPS_DONE in groups[0]:
        rule = "must be given once: this optimizer follows a schedule already"
        raise wrong_value("rates", "follow_schedule", rule, rates)
    schedules = schedules_of(rates, len(groups))
    for group, schedule in zip(groups, schedules, strict=True):
        group[STEPS_DONE] = 0
        group["lr"] = schedule(0)
    optimizer.defaults["lr"] = groups[0]["lr"]  # for groups that are added later
    optimizer.register_step_post_hook(_Follower(schedules))
    return optimizer


def has_schedule(optimizer: Any) -> bool:
    """Whether the optimizer was created with a schedule that it does not follow yet."""
    groups = getattr(optimizer, "param_groups", None) or ()
    return any(isinstance(group.get("lr"), LearningRateSchedule) for group in groups)


def _own_schedule(rate: Any) -> LearningRateSchedule:
    return rate if isinstance(rate, LearningRateSchedule) else ListedLR([float(rate)])


class _Follower:
    """Sets the rates of the next step; groups that are added later keep their own."""

    def __init__(self, schedules: list[Callable[[int], float]]) -> None:
        self._schedules = schedules

    def __call__(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        for group, schedule in zip(optimizer.param_groups, self._schedules, strict=False):
            # A state that was saved without a schedule does not have the number.
            group[STEPS_DONE] = group.get(STEPS_DONE, 0) + 1
            group["lr"] = schedule(group[STEPS_DONE])
