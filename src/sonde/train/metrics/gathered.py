"""Metrics built on torchmetrics objects, accumulated by batch and merged over ranks."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import torch
import torchmetrics
from torch import Tensor, distributed

from sonde.core.arguments import wrong_type
from sonde.train.metrics.contract import (
    Metric,
    MetricInputError,
    MetricNotReadyError,
    MetricValue,
    rearrange_inputs,
)
from sonde.train.metrics.inputs import as_numpy
from sonde.train.nested import map_nested
from sonde.train.ranks import gather

State = TypeVar("State", bound=torchmetrics.Metric)


class Sums(torchmetrics.Metric):
    """A few running sums in float64; NaN and Inf propagate."""

    full_state_update = False
    total: Tensor

    def __init__(self, count: int) -> None:
        super().__init__(sync_on_compute=False)
        zeros = torch.zeros(count, dtype=torch.float64)
        self.add_state("total", default=zeros, dist_reduce_fx="sum")

    def update(self, *values: float | Tensor) -> None:
        added = [float(value) for value in values]
        self.total = self.total + torch.tensor(added, dtype=torch.float64)

    def compute(self) -> Tensor:
        return self.total


class Rows(torchmetrics.Metric):
    """Tensors kept as given, concatenated along their first dimension.

    ``num_classes`` is the width that all of them must have.
    """

    full_state_update = False

    def __init__(self, columns: int, num_classes: int) -> None:
        super().__init__(sync_on_compute=False)
        self.columns = columns
        self.num_classes = num_classes
        for column in range(columns):
            self.add_state(f"column_{column}", default=[], dist_reduce_fx="cat")

    def update(self, *columns: Tensor) -> None:
        for index, value in enumerate(columns):
            getattr(self, f"column_{index}").append(value.cpu())

    def compute(self) -> tuple[Tensor, ...]:
        columns = (getattr(self, f"column_{index}") for index in range(self.columns))
        return tuple(torch.cat(one if isinstance(one, list) else [one]) for one in columns)


class GatheredMetric(Metric, Generic[State]):
    """A metric that wraps one torchmetrics object, created at the first batch.

    ``eval`` merges copies of the objects of all ranks. A rank without batches takes part too, so
    uneven data cannot hang a run as long as every rank calls ``eval``. The objects are on the CPU.
    """

    _state: State | None = None

    def clear(self) -> None:
        self._state = None

    def eval(self) -> Any:
        """The value over all batches of all ranks."""
        return MetricValue(self._merged().compute())

    def _state_or(self, create: Callable[[], State]) -> State:
        """The state, created at the first batch."""
        if self._state is None:
            self._state = create()
        return self._state

    def _merged(self) -> State:
        """A copy of the state, over all ranks; ``MetricNotReadyError`` when no rank has any."""
        states = [state for state in gather(self._state) if state is not None]
        if not states:
            raise not_ready(type(self).__name__)
        sizes = {_classes(state) for state in states}
        if len(sizes) > 1:
            raise MetricInputError(
                f"{type(self).__name__}: the ranks saw different numbers of classes: "
                f"{sorted(size for size in sizes if size is not None)}"
            )
        merged: State = copy.deepcopy(states[-1])
        # torchmetrics prepends the merged rows to its own, so rows end up in rank order.
        for state in reversed(states[:-1]):
            merged.merge_state(state)
        return merged

    def _check_classes(self, classes: int) -> None:
        """Raise an error if a batch has another number of classes than the earlier batches."""
        if self._state is not None and _classes(self._state) != classes:
            raise MetricInputError(
                f"{type(self).__name__}: this batch has {classes} classes, the ones before had "
                f"{_classes(self._state)}; call clear() between data sets"
            )


def float64_mean() -> torchmetrics.MeanMetric:
    """A running mean in float64; NaN and Inf propagate."""
    return in_float64(torchmetrics.MeanMetric(nan_strategy="disable", sync_on_compute=False))


def in_float64(state: State) -> State:
    """The same object, with float64 sums."""
    state.set_dtype(torch.float64)
    return state


def not_ready(owner: str) -> MetricNotReadyError:
    """The error for ``eval`` without samples."""
    return MetricNotReadyError(
        f"{owner} has seen no samples: call update() with at least one sample before eval()",
        slug="metric-empty",
    )


def _classes(state: torchmetrics.Metric) -> int | None:
    found = getattr(state, "num_classes", None) or getattr(state, "num_labels", None)
    return None if found is None else int(found)


class TorchMetric(Metric):
    """A torchmetrics object, or a collection of them.

    Counting, merging over ranks and computing are torchmetrics' own; inputs are passed unchanged.
    The object is moved to the device of the first tensor it gets. Results of one element are
    returned as ``MetricValue``, larger ones as numpy arrays, also inside tuples, lists and dicts.
    """

    def __init__(self, metric: torchmetrics.Metric | torchmetrics.MetricCollection) -> None:
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
