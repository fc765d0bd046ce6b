"""Metrics of predicted numbers, and the loss; everything is computed and summed in float64.

The mean runs over elements, not over samples. NaN and Inf go through: one NaN makes an error or a
loss NaN. An empty batch adds nothing.
"""

from __future__ import annotations

from typing import Any

import torch
from torchmetrics import MeanAbsoluteError, MeanMetric, MeanSquaredError

from sonde.train.metrics.contract import MetricInputError, MetricValue, rearrange_inputs
from sonde.train.metrics.gathered import GatheredMetric, float64_mean, in_float64
from sonde.train.metrics.inputs import as_tensor, expect, real_pair
from sonde.train.validator import check_non_negative_float


class MAE(GatheredMetric[MeanAbsoluteError]):
    """The mean of the absolute differences."""

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Take predictions and true values of one shape."""
        preds, target = real_pair("MAE", inputs)
        if preds.numel() == 0:
            return
        if self._state is None:
            self._state = in_float64(MeanAbsoluteError(sync_on_compute=False))
        self._state.update(preds.reshape(-1), target.reshape(-1))

    def eval(self) -> MetricValue:
        """The mean absolute error."""
        return MetricValue(self._merged().compute())


class MSE(GatheredMetric[MeanSquaredError]):
    """The mean of the squared differences."""

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Take predictions and true values of one shape."""
        preds, target = real_pair("MSE", inputs)
        if preds.numel() == 0:
            return
        if self._state is None:
            self._state = in_float64(MeanSquaredError(sync_on_compute=False))
        self._state.update(preds.reshape(-1), target.reshape(-1))

    def eval(self) -> MetricValue:
        """The mean squared error."""
        return MetricValue(self._merged().compute())


class Tolerance(GatheredMetric[MeanMetric]):
    """The share of elements within ``absolute + relative * |true value|`` of the true value.

    NaN is never within; an Inf is within of the same Inf only.
    """

    def __init__(self, relative: float = 1e-3, absolute: float = 1e-3) -> None:
        self.relative = check_non_negative_float(relative, "relative", "Tolerance")
        self.absolute = check_non_negative_float(absolute, "absolute", "Tolerance")

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Take predictions and true values of one shape."""
        preds, target = real_pair("Tolerance", inputs)
        if preds.numel() == 0:
            return
        if self._state is None:
            self._state = float64_mean()
        within = torch.isclose(preds, target, rtol=self.relative, atol=self.absolute)
        self._state.update(within.double())

    def eval(self) -> MetricValue:
        """The share, from 0 to 1."""
        return MetricValue(self._merged().compute())


class Loss(GatheredMetric[MeanMetric]):
    """The mean loss over the batches, each batch counting once; a vector counts as its mean."""

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Take the loss of one batch, a number or a vector."""
        expect("Loss", inputs, "loss")
        given = [inputs[0]] if isinstance(inputs[0], (int, float)) else inputs[0]
        loss = as_tensor("Loss", given)
        if loss.ndim > 1 or loss.numel() == 0:
            raise MetricInputError(
                f"Loss: a loss is a number or a vector, not of shape {tuple(loss.shape)}",
                slug="metric-input",
            )
        if self._state is None:
            self._state = float64_mean()
        self._state.update(loss.cpu().double().mean())

    def eval(self) -> MetricValue:
        """The mean loss."""
        return MetricValue(self._merged().compute())
