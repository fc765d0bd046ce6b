"""Evaluates metrics over a dataset and calls the ``on_eval_*`` hooks of the callbacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import nn

from sonde.core.callback import RunContext
from sonde.core.errors import UsageError
from sonde.train.loop.dispatch import Dispatcher
from sonde.train.loop.step_loss import as_step_output

Indexes = tuple[int, int, int]
"""The positions of loss, prediction and target in the outputs of a batch."""

LOSS_PREDICTION_TARGET: Indexes = (0, 1, 2)


def evaluate(
    dataset: Iterable[Any],
    outputs_of: Callable[[Any], tuple[Any, ...]],
    metrics: dict[str, Any],
    indexes: Indexes | None,
    hooks: Dispatcher,
    context: RunContext,
) -> dict[str, Any]:
    """The metrics over all batches (or until a callback requests a stop).

    ``outputs_of`` computes the outputs for a batch. ``indexes`` are the positions of loss,
    prediction and target in the outputs; without them the metrics get all outputs.
    """
    arguments = context.original_args()
    arguments.cur_step_num = 0
    arguments.setdefault("cur_epoch_num", 0)  # inside fit: that of the training
    for metric in metrics.values():
        metric.clear()
    # Inside fit, the training run enters and leaves the callbacks.
    with nullcontext() if context.within_fit else hooks:
        hooks.call("begin")
        arguments.cur_epoch_num = arguments.cur_epoch_num or 1
        hooks.call("epoch_begin")
        for number, element in enumerate(dataset, start=1):
            arguments.update(cur_step_num=number, eval_dataset_element=element)
            hooks.call("step_begin")
            with torch.no_grad():
                outputs = outputs_of(element)
                _update(metrics, indexes, outputs)
            arguments.net_outputs = as_step_output(outputs)
            hooks.call("step_end")
            if context.get_stop_requested():
                break
        results = {name: metric.eval() for name, metric in metrics.items()}
        arguments.metrics = results
        hooks.call("epoch_end")
        hooks.call("end")
    return results


def _update(metrics: dict[str, Any], indexes: Indexes | None, outputs: tuple[Any, ...]) -> None:
    from sonde.train.metrics import Loss  # torchmetrics is slow to import

    for metric in metrics.values():
        if indexes is None:
            metric.update(*outputs)
        elif isinstance(metric, Loss):
            metric.update(outputs[indexes[0]])
        elif outputs[indexes[2]] is None:
            raise UsageError(
                f"{type(metric).__name__} needs a target, and a network that returns its own "
                "loss has none: use batches that are a dict with 'labels', or eval_network",
                slug="batch-without-target",
            )
        else:
            metric.update(outputs[indexes[1]], outputs[indexes[2]])


@contextmanager
def evaluating(*networks: nn.Module) -> Iterator[None]:
    """Evaluation mode inside the block; each module's own mode is restored afterwards."""
    before = [(module, module.training) for network in networks for module in network.modules()]
    for network in networks:
        network.eval()
    try:
        yield
    finally:
        for module, training in before:
            module.training = training
