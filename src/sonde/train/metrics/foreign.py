"""Any torchmetrics object as a metric of ours."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torchmetrics
from torch import Tensor

from sonde.train.metrics.contract import Metric, MetricValue, rearrange_inputs
from sonde.train.metrics.gathered import not_ready
from sonde.train.validator import wrong_type

Foreign = torchmetrics.Metric | torchmetrics.MetricCollection


class TorchMetric(Metric):
    """A torchmetrics object (or a collection of them) used as it is.

    It counts, merges over ranks and computes by its own rules; inputs go to it untouched. It is
    moved to the device of the first tensor it is given. Tensors of one element come back as
    ``MetricValue``, other tensors as numpy arrays, and so inside tuples, lists and dicts.
    """

    def __init__(self, metric: Foreign) -> None:
        if not isinstance(metric, (torchmetrics.Metric, torchmetrics.MetricCollection)):
            raise wrong_type("metric", "TorchMetric", "must be a torchmetrics object", metric)
        self.metric = metric
        self._updated = False

    def clear(self) -> None:
        self.metric.reset()
        self._updated = False

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Pass the inputs on."""
        device = next((value.device for value in inputs if isinstance(value, Tensor)), None)
        if device is not None and not self._updated:
            self.metric.to(device)
        self.metric.update(*inputs)
        self._updated = True

    def eval(self) -> Any:
        """What ``compute`` gives, as plain values.

        With several ranks torchmetrics decides what a rank without batches means.
        """
        alone = not (dist.is_available() and dist.is_initialized())
        if alone and not self._updated:
            raise not_ready(type(self.metric).__name__)
        return _plain(self.metric.compute())


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        if value.numel() == 1:
            return MetricValue(value.item())
        narrow = value.is_floating_point() and value.dtype not in (torch.float32, torch.float64)
        return (value.float() if narrow else value).detach().cpu().numpy()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_plain(item) for item in value)
    return value
