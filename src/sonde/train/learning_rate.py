"""Learning rate schedules for any torch optimizer.

A schedule computes the rate of a step (counted from 0). ``scheduler`` makes a ``LambdaLR`` of it,
which is stepped, saved and restored like every torch scheduler. The list functions return the rates
of a whole run, with decays counted in epochs. Rates are computed in float64.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, cast

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from sonde.core.arguments import (
    check_bool,
    check_non_negative_float,
    check_non_negative_int,
    check_positive_float,
    check_positive_int,
    wrong_type,
    wrong_value,
)
from sonde.core.errors import SondeError


class LearningRateError(SondeError, ValueError):
    """A schedule returned a rate that no optimizer can use."""


class LearningRateSchedule(ABC):
    """The learning rate of each step; a subclass defines ``construct(global_step)``.

    ``construct`` gets the step, an int from 0 on, and returns a number or a tensor of one element.
    Calling the schedule checks the result: a rate that is NaN, infinite or negative is a
    ``LearningRateError`` that names the schedule and the step.
    """

    @property
    def cls_name(self) -> str:
        """The name of the class, for messages."""
        return type(self).__name__

    @abstractmethod
    def construct(self, global_step: int) -> Any:
        """The learning rate of this step."""

    def __call__(self, global_step: Any) -> float:
        """The learning rate of this step (an int, or a tensor of one), as a float."""
        step = int(global_step)
        if step < 0:
            raise wrong_value("global_step", self.cls_name, "must be at least 0", step)
        rate = float(self.construct(step))
        if not (math.isfinite(rate) and rate >= 0):
            raise LearningRateError(
                f"{self.cls_name} gave {rate} for step {step}; a learning rate must be finite and "
                "not negative",
                slug="learning-rate",
            )
        return rate

    # torch's optimizers check at their creation that the rate is not below 0. With a schedule as
    # ``lr`` that is its first rate; see ``follow_schedule``.
    def __lt__(self, other: float) -> bool:
        return self(0) < other

    def __ge__(self, other: float) -> bool:
        return self(0) >= other

    def scheduler(self, optimizer: Optimizer, *, start_step: int = 0) -> LambdaLR:
        """This schedule for every group of ``optimizer``; see ``scheduler_for``."""
        return scheduler_for(optimizer, self, start_step=start_step)


class _Decay(LearningRateSchedule):
    """Base of the three exponential-style decays."""

    def __init__(
        self, learning_rate: float, decay_rate: float, decay_steps: int, is_stair: bool = False
    ) -> None:
        self.learning_rate = check_positive_float(learning_rate, "learning_rate", self.cls_name)
        self.decay_rate = check_positive_float(decay_rate, "decay_rate", self.cls_name)
        self.decay_steps = check_positive_int(decay_steps, "decay_steps", self.cls_name)
        self.is_stair = check_bool(is_stair, "is_stair", self.cls_name)

    def _progress(self, step: int) -> float:
        """Number of decays so far; a whole number if ``is_stair``."""
        return step // self.decay_steps if self.is_stair else step / self.decay_steps


class ExponentialDecayLR(_Decay):
    """``learning_rate * decay_rate ** (step / decay_steps)``; ``is_stair`` floors the exponent."""

    def construct(self, global_step: int) -> float:
        return self.learning_rate * math.pow(self.decay_rate, self._progress(global_step))


class NaturalExpDecayLR(_Decay):
    """``learning_rate * e ** (-decay_rate * step)``; ``is_stair`` floors the step.

    As in MindSpore, ``decay_steps`` has no effect without ``is_stair``.
    """

    def construct(self, global_step: int) -> float:
        step = global_step - global_step % self.decay_steps if self.is_stair else global_step
        return self.learning_rate * math.exp(-self.decay_rate * step)


class InverseDecayLR(_Decay):
    """``learning_rate / (1 + decay_rate * step / decay_steps)``; ``is_stair`` floors it."""

    def construct(self, global_step: int) -> float:
        return self.learning_rate / (1 + self.decay_rate * self._progress(global_step))


class CosineDecayLR(LearningRateSchedule):
    """Half a cosine from ``max_lr`` down to ``min_lr`` in ``decay_steps``, then ``min_lr``."""

    def __init__(self, min_lr: float, max_lr: float, decay_steps: int) -> None:
        self.min_lr = check_non_negative_float(min_lr, "min_lr", self.cls_name)
        self.max_lr = check_positive_float(max_lr, "max_lr", self.cls_name)
        self.decay_steps = check_positive_int(decay_steps, "decay_steps", self.cls_name)
        if min_lr >= max_lr:
            raise wrong_value("min_lr", self.cls_name, f"must be below max_lr {max_lr}", min_lr)

    def construct(self, global_step: int) -> float:
        progress = min(global_step, self.decay_steps) / self.decay_steps
        return self.min_lr + 0.5 * (self.max_lr - self.min_lr) * (1 + math.cos(math.pi * progress))


class PolynomialDecayLR(LearningRateSchedule):
    """From ``learning_rate`` to ``end_learning_rate`` as ``(1 - step / decay_steps) ** power``.

    After ``decay_steps`` the rate stays constant. ``update_decay_steps`` instead extends the decay
    to the next multiple of ``decay_steps`` each time.
    """

    def __init__(
        self,
        learning_rate: float,
        end_learning_rate: float,
        decay_steps: int,
        power: float,
        update_decay_steps: bool = False,
    ) -> None:
        self.learning_rate = check_positive_float(learning_rate, "learning_rate", self.cls_name)
        self.end_learning_rate = check_non_negative_float(
            end_learning_rate, "end_learning_rate", self.cls_name
        )
        self.decay_steps = check_positive_int(decay_steps, "decay_steps", self.cls_name)
        self.power = check_positive_float(power, "power", self.cls_name)
        self.update_decay_steps = check_bool(
            update_decay_steps, "update_decay_steps", self.cls_name
        )

    def construct(self, global_step: int) -> float:
        step, over = min(global_step, self.decay_steps), self.decay_steps
        if self.update_decay_steps:
            step, over = global_step, over * max(1, math.ceil(global_step / over))
        difference = self.learning_rate - self.end_learning_rate
        return difference * math.pow(1 - step / over, self.power) + self.end_learning_rate


class PiecewiseConstantLR(LearningRateSchedule):
    """``learning_rates[i]`` before step ``milestone[i]``; the last one from there on."""

    def __init__(self, milestone: Sequence[int], learning_rates: Sequence[float]) -> None:
        for name, value in (("milestone", milestone), ("learning_rates", learning_rates)):
            if not isinstance(value, (list, tuple)):
                raise wrong_type(name, self.cls_name, "must be a list or tuple", value)
        if not milestone or len(milestone) != len(learning_rates):
            raise wrong_value(
                "learning_rates",
                self.cls_name,
                f"must have one rate for each of the {len(milestone)} milestones (at least one)",
                learning_rates,
            )
        self.milestone = tuple(
            check_positive_int(step, f"milestone[{index}]", self.cls_name)
            for index, step in enumerate(milestone)
        )
        if any(later <= earlier for earlier, later in pairwise(self.milestone)):
            raise wrong_value("milestone", self.cls_name, "must rise", milestone)
        self.learning_rates = _checked_rates(learning_rates, self.cls_name)

    def construct(self, global_step: int) -> float:
        passed = sum(step <= global_step for step in self.milestone[:-1])
        return self.learning_rates[passed]


class WarmUpLR(LearningRateSchedule):
    """Rises linearly from 0 to ``learning_rate`` in ``warmup_steps``, then stays."""

    def __init__(self, learning_rate: float, warmup_steps: int) -> None:
        self.learning_rate = check_non_negative_float(learning_rate, "learning_rate", self.cls_name)
        self.warmup_steps = check_positive_int(warmup_steps, "warmup_steps", self.cls_name)

    def construct(self, global_step: int) -> float:
        return self.learning_rate * (min(global_step, self.warmup_steps) / self.warmup_steps)


class ListedLR(LearningRateSchedule):
    """The rates of a list, one per step; the last one is used after its end."""

    def __init__(self, learning_rates: Sequence[float]) -> None:
        if isinstance(learning_rates, str) or not learning_rates:
            raise wrong_value("learning_rates", self.cls_name, "must hold rates", learning_rates)
        self.learning_rates = _checked_rates(learning_rates, self.cls_name)

    def construct(self, global_step: int) -> float:
        return self.learning_rates[min(global_step, len(self.learning_rates) - 1)]


def _checked_rates(rates: Sequence[float], owner: str) -> tuple[float, ...]:
    return tuple(
        check_non_negative_float(rate, f"learning_rates[{index}]", owner)
        for index, rate in enumerate(rates)
    )


Rates = LearningRateSchedule | Sequence[float] | Sequence[LearningRateSchedule]


def scheduler_for(optimizer: Optimizer, rates: Rates, *, start_step: int = 0) -> LambdaLR:
    """A torch scheduler that sets the rate of each parameter group of ``optimizer``.

    ``rates`` is one schedule for all groups, one schedule for each group, or a list of rates. It
    replaces the rate that the optimizer was created with. Call the scheduler's ``step()`` after
    each optimizer step; its ``state_dict`` holds the step and the attributes of the schedules.
    ``start_step`` is the step whose rate is set now.
    """
    first = check_non_negative_int(start_step, "start_step", "scheduler_for")
    schedules = schedules_of(rates, len(optimizer.param_groups))
    for group in optimizer.param_groups:
        # LambdaLR multiplies this with the schedule's rate.
        group["initial_lr"] = 1.0
    return LambdaLR(optimizer, schedules, last_epoch=first - 1)


def schedules_of(rates: Rates, groups: int) -> list[Callable[[int], float]]:
    """A schedule for each parameter group."""
    if isinstance(rates, LearningRateSchedule):
        return [rates] * groups
    if not isinstance(rates, Sequence) or isinstance(rates, str) or not rates:
        raise wrong_type("rates", "scheduler_for", "must be a schedule or a list", rates)
    if not all(isinstance(rate, LearningRateSchedule) for rate in rates):
        return [ListedLR(cast("Sequence[float]", rates))] * groups
    if len(rates) != groups:
        raise wrong_value(
            "rates", "scheduler_for", f"must have a schedule for each of {groups} groups", rates
        )
    return list(cast("Sequence[LearningRateSchedule]", rates))


def piecewise_constant_lr(milestone: Sequence[int], learning_rates: Sequence[float]) -> list[float]:
    """``learning_rates[i]`` for the steps up to ``milestone[i]``, ``milestone[-1]`` in all."""
    schedule = PiecewiseConstantLR(milestone, learning_rates)
    return [schedule(step) for step in range(schedule.milestone[-1])]


def _decay_list(schedule: type[_Decay], name: str) -> Callable[..., list[float]]:
    """The list function of a decay, which counts in epochs."""

    def rates(
        learning_rate: float,
        decay_rate: float,
        total_step: int,
        step_per_epoch: int,
        decay_epoch: int,
        is_stair: bool = False,
    ) -> list[float]:
        decay = schedule(learning_rate, decay_rate, decay_epoch, is_stair)
        return _by_epoch(decay, total_step, step_per_epoch)

    rates.__name__ = rates.__qualname__ = name
    rates.__doc__ = f"``{schedule.__name__}`` in epochs, for each of ``total_step`` steps."
    return rates


exponential_decay_lr = _decay_list(ExponentialDecayLR, "exponential_decay_lr")
natural_exp_decay_lr = _decay_list(NaturalExpDecayLR, "natural_exp_decay_lr")
inverse_decay_lr = _decay_list(InverseDecayLR, "inverse_decay_lr")


def cosine_decay_lr(
    min_lr: float, max_lr: float, total_step: int, step_per_epoch: int, decay_epoch: int
) -> list[float]:
    """``CosineDecayLR`` in epochs, for each of ``total_step`` steps."""
    return _by_epoch(CosineDecayLR(min_lr, max_lr, decay_epoch), total_step, step_per_epoch)


def polynomial_decay_lr(
    learning_rate: float,
    end_learning_rate: float,
    total_step: int,
    step_per_epoch: int,
    decay_epoch: int,
    power: float,
    update_decay_epoch: bool = False,
) -> list[float]:
    """``PolynomialDecayLR`` in epochs, for each of ``total_step`` steps."""
    schedule = PolynomialDecayLR(
        learning_rate, end_learning_rate, decay_epoch, power, update_decay_epoch
    )
    return _by_epoch(schedule, total_step, step_per_epoch)


def warmup_lr(
    learning_rate: float, total_step: int, step_per_epoch: int, warmup_epoch: int
) -> list[float]:
    """``WarmUpLR`` in epochs, for each of ``total_step`` steps."""
    return _by_epoch(WarmUpLR(learning_rate, warmup_epoch), total_step, step_per_epoch)


def _by_epoch(schedule: LearningRateSchedule, total_step: int, step_per_epoch: int) -> list[float]:
    check_positive_int(total_step, "total_step")
    check_positive_int(step_per_epoch, "step_per_epoch")
    return [schedule(step // step_per_epoch) for step in range(total_step)]
