"""One training step and one evaluation step of a network on a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from sonde.core.errors import UsageError
from sonde.train.loop.batch import Batch, split_batch, whole_batch
from sonde.train.loss_scale import LossScaling
from sonde.train.precision import ComputePrecision


@dataclass(frozen=True, slots=True)
class StepResult:
    """Result of a step: its output (the loss), and with a loss scale the overflow and the scale."""

    output: Any
    overflow: bool | None = None
    scale: float | None = None


@dataclass(frozen=True, slots=True)
class Forward:
    """From a batch to outputs and loss. ``network`` may be a compiled one."""

    network: Callable[..., Any]
    loss_fn: Callable[..., Any] | None
    precision: ComputePrecision

    def batch(self, element: Any) -> Batch:
        split = whole_batch if self.loss_fn is None else split_batch
        batch = split(element, self.precision.device)
        if self.precision.whole is None:
            return batch
        cast = self.precision.inputs
        return Batch(cast(batch.arguments), cast(batch.keywords), batch.target)

    def outputs(self, batch: Batch) -> Any:
        return self.precision.outputs(batch.apply(self.network))

    def loss(self, outputs: Any, batch: Batch) -> Any:
        return outputs if self.loss_fn is None else self.loss_fn(outputs, batch.target)


@dataclass(slots=True)
class TrainStep:
    """Forward, backward, update. Without an optimizer the network does all of it."""

    forward: Forward
    module: nn.Module
    optimizer: Any = None
    loss_scale_manager: Any = None
    scheduler: Any = None
    _scaling: LossScaling | None = None
    _checked: bool = False

    def __call__(self, element: Any) -> StepResult:
        if self.optimizer is None:
            return self._whole_step(element)
        self.optimizer.zero_grad(set_to_none=True)
        batch = self.forward.batch(element)
        with self.forward.precision.context():
            loss = loss_of(self.forward.loss(self.forward.outputs(batch), batch))
        if self.loss_scale_manager is not None:
            return self._scaled_update(loss)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        if self.scheduler is not None:
            self.scheduler.step()
        return StepResult(loss)

    def _scaled_update(self, loss: torch.Tensor) -> StepResult:
        if self._scaling is None:
            self._scaling = LossScaling(self.optimizer, self.loss_scale_manager)
        overflow = self._scaling.step(loss)
        dropped = overflow and self.loss_scale_manager.get_drop_overflow_update()
        if self.scheduler is not None and not dropped:
            self.scheduler.step()
        return StepResult(loss, overflow, self._scaling.scale)

    def _whole_step(self, element: Any) -> StepResult:
        before = None if self._checked else _versions(self.module)
        batch = self.forward.batch(element)
        with self.forward.precision.context():
            output = self.forward.loss(self.forward.outputs(batch), batch)
        if before is not None and before == _versions(self.module):
            raise UsageError(
                "the first step changed no weight: give Model an optimizer, or a network that "
                "updates its own weights",
                slug="no-optimizer",
            )
        self._checked = True
        return StepResult(output)


@dataclass(frozen=True, slots=True)
class EvalStep:
    """Loss, prediction and target of one batch, for the metrics."""

    forward: Forward
    eval_network: Callable[..., Any] | None = None

    def __call__(self, element: Any) -> tuple[Any, ...]:
        precision = self.forward.precision
        if self.eval_network is not None:
            with precision.context():
                outputs = whole_batch(element, precision.device).apply(self.eval_network)
            return tuple(outputs) if isinstance(outputs, tuple | list) else (outputs,)
        batch = self.forward.batch(element)
        with precision.context():
            outputs = self.forward.outputs(batch)
            loss = self.forward.loss(outputs, batch)
        return loss_of(loss), prediction_of(outputs), batch.target


def loss_of(output: Any) -> torch.Tensor:
    """The loss in what a network or loss function returned; it must be one number.

    A mapping or an object may carry it as ``loss`` (Hugging Face), a tuple as its first item.
    """
    loss = output
    if isinstance(output, Mapping) and "loss" in output:
        loss = output["loss"]
    elif not isinstance(output, torch.Tensor) and hasattr(output, "loss"):
        loss = output.loss
    elif isinstance(output, tuple | list) and output:
        loss = output[0]
    if not isinstance(loss, torch.Tensor):
        raise UsageError(
            f"the loss is a {type(loss).__name__}, not a tensor: give Model a loss_fn, or a "
            "network that returns its loss",
            slug="no-loss",
        )
    if loss.numel() != 1:
        raise UsageError(
            f"the loss has the shape {tuple(loss.shape)}, training needs one number: reduce it "
            "(reduction='mean') in the loss function",
            slug="loss-shape",
        )
    return loss


def prediction_of(outputs: Any) -> Any:
    """The prediction among a network's outputs (``logits`` where they carry their own loss)."""
    if isinstance(outputs, Mapping) and "logits" in outputs:
        return outputs["logits"]
    if not isinstance(outputs, torch.Tensor) and hasattr(outputs, "logits"):
        return outputs.logits
    return outputs


def _versions(module: nn.Module) -> list[int]:
    """How often each weight was written in place: cheap evidence that something was updated."""
    return [parameter._version for parameter in module.parameters()]
