"""Metrics of predicted numbers, and the loss; everything is computed and summed in float64.

The mean is over elements, not over samples. NaN and Inf propagate: one NaN makes an error or a loss
NaN. An empty batch adds nothing.
"""

from __future__ import annotations

from typing import Any

import torch
import torchmetrics
from torch import Tensor

from sonde.core.arguments import check_non_negative_float
from sonde.train.metrics.contract import MetricInputError, rearrange_inputs
from sonde.train.metrics.gathered import GatheredMetric, float64_mean, in_float64
from sonde.train.metrics.inputs import as_tensor, expect, real_pair


class PairMetric(GatheredMetric[Any]):
    """A metric of predictions and true values of the same shape.

    A subclass defines ``_new_state``, which creates the torchmetrics object that accumulates, and
    ``_terms``, its inputs for a batch.
    """

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Add a batch of predictions and true values of the same shape."""
        preds, target = real_pair(type(self).__name__, inputs)
        if preds.numel():
            self._state_or(self._new_state).update(*self._terms(preds, target))

    def _new_state(self) -> torchmetrics.Metric:
        raise NotImplementedError

    def _terms(self, preds: Tensor, target: Tensor) -> tuple[Tensor, ...]:
        return preds.reshape(-1), target.reshape(-1)


class MAE(PairMetric):
    """The mean of the absolute differences."""

    def _new_state(self) -> torchmetrics.Metric:
        return in_float64(torchmetrics.MeanAbsoluteError(sync_on_compute=False))


class MSE(PairMetric):
    """The mean of the squared differences."""

    def _new_state(self) -> torchmetrics.Metric:
        return in_float64(torchmetrics.MeanSquaredError(sync_on_compute=False))


class Tolerance(PairMetric):
    """The share of elements within ``absolute + relative * |true value|`` of the true value.

    A NaN is never within the tolerance, an Inf only if the true value is the same Inf.
    """

    def __init__(self, relative: float = 1e-3, absolute: float = 1e-3) -> None:
        self.relative = check_non_negative_float(relative, "relative", "Tolerance")
        self.absolute = check_non_negative_float(absolute, "absolute", "Tolerance")

    def _new_state(self) -> torchmetrics.Metric:
        return float64_mean()

    def _terms(self, preds: Tensor, target: Tensor) -> tuple[Tensor, ...]:
        within = torch.isclose(preds, target, rtol=self.relative, atol=self.absolute)
        return (within.double(),)


class Loss(GatheredMetric[torchmetrics.MeanMetric]):
    """The mean loss over the batches, each batch counting once; a vector counts as its mean."""

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Add the loss of one batch, a number or a vector."""
        expect("Loss", inputs, "loss")
        given = [inputs[0]] if isinstance(inputs[0], (int, float)) else inputs[0]
        loss = as_tensor("Loss", given)
        if loss.ndim > 1 or loss.numel() == 0:
            raise MetricInputError(
                f"Loss: a loss is a number or a vector, not of shape {tuple(loss.shape)}"
            )
        self._state_or(float64_mean).update(loss.cpu().double().mean())
