"""State that is gathered batch by batch and merged over ranks, on torchmetrics."""

from __future__ import annotations

import copy
from typing import Any, Generic, TypeVar

import torch
import torch.distributed as dist
import torchmetrics
from torch import Tensor

from sonde.train.metrics.contract import Metric, MetricInputError, MetricNotReadyError

State = TypeVar("State", bound=torchmetrics.Metric)


class Sums(torchmetrics.Metric):
    """A few running sums in float64; NaN and Inf go through."""

    full_state_update = False
    total: Tensor

    def __init__(self, count: int) -> None:
        super().__init__(sync_on_compute=False)
        self.add_state(
            "total", default=torch.zeros(count, dtype=torch.float64), dist_reduce_fx="sum"
        )

    def update(self, *values: float | Tensor) -> None:
        self.total = self.total + torch.tensor(
            [float(value) for value in values], dtype=torch.float64
        )

    def compute(self) -> Tensor:
        return self.total


class Rows(torchmetrics.Metric):
    """Tensors kept as they come, joined along their first dimension.

    ``num_classes`` is the width they must agree on.
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
        return tuple(
            torch.cat(_as_list(getattr(self, f"column_{index}"))) for index in range(self.columns)
        )


class GatheredMetric(Metric, Generic[State]):
    """A metric that wraps one torchmetrics object, created at the first batch.

    ``eval`` merges the objects of all ranks, leaving this rank's own as it was. A rank that saw no
    batch takes part with nothing, so uneven data cannot hang a run as long as every rank calls
    ``eval``. The objects live on the host.
    """

    _state: State | None = None

    def clear(self) -> None:
        self._state = None

    def _merged(self) -> State:
        """The state over all ranks, a copy; ``MetricNotReadyError`` when no rank has any."""
        states = [state for state in over_ranks(self._state) if state is not None]
        if not states:
            raise not_ready(type(self).__name__)
        self._check_agreement(states)
        merged: State = copy.deepcopy(states[-1])
        # torchmetrics prepends the merged rows to its own, so rows end up in rank order.
        for state in reversed(states[:-1]):
            merged.merge_state(state)
        return merged

    def _check_agreement(self, states: list[State]) -> None:
        """Refuse ranks (or batches) that gathered different numbers of classes."""
        sizes = {_classes(state) for state in states}
        if len(sizes) > 1:
            raise MetricInputError(
                f"{type(self).__name__}: the ranks saw different numbers of classes: "
                f"{sorted(size for size in sizes if size is not None)}",
                slug="metric-input",
            )

    def _check_classes(self, classes: int) -> None:
        """Refuse a batch with another number of classes than the ones before."""
        if self._state is not None and _classes(self._state) != classes:
            raise MetricInputError(
                f"{type(self).__name__}: this batch has {classes} classes, the ones before had "
                f"{_classes(self._state)}; call clear() between data sets",
                slug="metric-input",
            )


def float64_mean() -> torchmetrics.MeanMetric:
    """A running mean in float64 through which NaN and Inf go unhindered."""
    return in_float64(torchmetrics.MeanMetric(nan_strategy="disable", sync_on_compute=False))


def in_float64(state: State) -> State:
    """The object itself, its sums now float64."""
    state.set_dtype(torch.float64)
    return state


def over_ranks(value: Any) -> list[Any]:
    """This value of every rank, in rank order; a list of one outside distributed training."""
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        return [value]
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, value)
    return everyone


def not_ready(owner: str) -> MetricNotReadyError:
    """The error of a value asked for too early."""
    return MetricNotReadyError(
        f"{owner} has seen no samples: call update() with at least one sample before eval()",
        slug="metric-empty",
    )


def _classes(state: torchmetrics.Metric) -> int | None:
    found = getattr(state, "num_classes", None) or getattr(state, "num_labels", None)
    return None if found is None else int(found)


def _as_list(value: Any) -> list[Tensor]:
    return value if isinstance(value, list) else [value]
