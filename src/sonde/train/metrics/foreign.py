"""Wraps any torchmetrics object as a metric."""

from __future__ import annotations

from typing import Any

import torchmetrics
from torch import Tensor, distributed

from sonde.train.metrics.contract import Metric, MetricValue, rearrange_inputs
from sonde.train.metrics.gathered import not_ready
from sonde.train.metrics.inputs import as_numpy
from sonde.train.nested import map_nested
from sonde.train.validator import wrong_type

Foreign = torchmetrics.Metric | torchmetrics.MetricCollection


class TorchMetric(Metric):
    """A torchmetrics object, or a collection of them.

    Counting, merging over ranks and computing are torchmetrics' own; inputs are passed unchanged.
    The object is moved to the device of the first tensor it gets. Results of one element are
    returned as ``MetricValue``, larger ones as numpy arrays, also inside tuples, lists and dicts.
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
        """Pass the inputs to the torchmetrics object."""
        device = next((value.device for value in inputs if isinstance(value, Tensor)), None)
        if device is not None and not self._updated:
            self.metric.to(device)
        self.metric.update(*inputs)
        self._updated = True

    def eval(self) -> Any:
        """The result of ``compute`` as plain values.

        With several ranks torchmetrics decides what a rank without batches means.
        """
        is_distributed = distributed.is_available() and distributed.is_initialized()
        if not is_distributed and not self._updated:
            raise not_ready(type(self.metric).__name__)
        return map_nested(self.metric.compute(), _plain)


def _plain(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    return MetricValue(value.item()) if value.numel() == 1 else as_numpy(value)
