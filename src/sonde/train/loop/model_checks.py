"""Checks the arguments of ``Model``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn
from torch.optim import LBFGS

from sonde.core.arguments import check_positive_int, wrong_type, wrong_value
from sonde.core.errors import UsageError
from sonde.train.learning_rate import LearningRateSchedule, scheduler_for
from sonde.train.loop.evaluation import LOSS_PREDICTION_TARGET, Indexes
from sonde.train.scheduled_optimizer import follow_schedule, has_schedule

_OWNER = "Model"
_METHODS = {
    "optimizer": ("zero_grad", "step"),
    "scheduler": ("step",),
    "loss_scale_manager": ("get_loss_scale", "update_loss_scale", "get_drop_overflow_update"),
}


def check_network(network: Any) -> None:
    if not isinstance(network, nn.Module):
        raise UsageError(
            f"network is a {type(network).__name__}, not a torch.nn.Module", slug="not-a-network"
        )


def check_scheduler_every(every: str) -> None:
    if every not in ("step", "epoch"):
        raise UsageError("scheduler_every is 'step' or 'epoch'", slug="scheduler-every")


def checked_indexes(eval_network: Any, indexes: Sequence[int] | None) -> Indexes | None:
    """The positions of loss, prediction and target in the outputs of an evaluation.

    None if an ``eval_network`` is given without them.
    """
    if indexes is None:
        return LOSS_PREDICTION_TARGET if eval_network is None else None
    if len(indexes) != 3 or not all(isinstance(index, int) for index in indexes):
        raise UsageError(
            "eval_indexes is three positions: of loss, prediction and target", slug="eval-indexes"
        )
    return indexes[0], indexes[1], indexes[2]


def check_part(part: Any, name: str) -> None:
    """An optimizer, scheduler or loss scale manager, or None; an object, not its class."""
    if part is None:
        return
    methods = _METHODS[name]
    if isinstance(part, LBFGS):
        rule = "must step without a closure (use sonde.train.callbacks in a loop of your own)"
        raise wrong_type(name, _OWNER, rule, part)
    if isinstance(part, type) or not all(hasattr(part, method) for method in methods):
        listed = " and ".join(methods)
        raise wrong_type(name, _OWNER, f"must be an object with {listed}", part)


def resolved_scheduler(scheduler: Any, optimizer: Any) -> Any:
    """A torch scheduler of ``Model``'s argument, which may also be a schedule or a list of rates.

    An optimizer that was created with a schedule (``lr=WarmUpLR(...)``) follows it from now on.
    """
    check_part(optimizer, "optimizer")
    if has_schedule(optimizer):
        follow_schedule(optimizer)
    if isinstance(scheduler, LearningRateSchedule | list | tuple):
        if optimizer is None:
            rule = "needs an optimizer whose rate it sets: Model(..., optimizer=...)"
            raise wrong_value("scheduler", _OWNER, rule, scheduler)
        return scheduler_for(optimizer, scheduler)
    check_part(scheduler, "scheduler")
    return scheduler


def check_loss_fn(loss_fn: Any) -> None:
    """A function or module of outputs and target, or None."""
    if loss_fn is not None and (isinstance(loss_fn, type) or not callable(loss_fn)):
        raise wrong_type("loss_fn", _OWNER, "must be a function or module", loss_fn)


def check_dataset(dataset: Any, name: str) -> None:
    """An iterable; no element is read."""
    if not hasattr(dataset, "__iter__") and not hasattr(dataset, "__getitem__"):
        raise wrong_type(name, _OWNER, "must be an iterable of batches", dataset)


def check_valid_frequency(frequency: int | Sequence[int]) -> None:
    """An integer of at least 1, or a list, tuple, set or range of epochs."""
    if not isinstance(frequency, list | tuple | set | frozenset | range):
        check_positive_int(frequency, "valid_frequency", _OWNER)
