"""One training step and one evaluation step of a network on a batch.

A batch that is a tuple or list has the inputs of the network, then the target of the loss. A
mapping (Hugging Face style) has keyword inputs, and the target under ``labels`` or ``label``.
Anything else is a single input. Numpy arrays, and lists of numbers in a mapping, become tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from sonde.core.errors import UsageError
from sonde.train.nested import map_nested
from sonde.train.one_step import LossScaling
from sonde.train.precision import ComputePrecision

_TARGET_KEYS = ("labels", "label")


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch, on the device: positional and keyword inputs, and the target if there is one."""

    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    target: Any = None

    def apply(self, network: Callable[..., Any]) -> Any:
        return network(*self.arguments, **self.keywords)


def whole_batch(element: Any, device: torch.device) -> Batch:
    """A batch of which everything is input of the network (which computes its own loss)."""
    if isinstance(element, Mapping):
        target = next((element[key] for key in _TARGET_KEYS if key in element), None)
        return Batch((), _keywords(element, device), place(target, device))
    if isinstance(element, tuple | list):
        return Batch(tuple(place(item, device) for item in element), {})
    return Batch((place(element, device),), {})


def split_batch(element: Any, device: torch.device) -> Batch:
    """A batch whose target goes to the loss function and the rest to the network."""
    if isinstance(element, Mapping):
        for key in _TARGET_KEYS:
            if key in element:
                rest = {name: value for name, value in element.items() if name != key}
                return Batch((), _keywords(rest, device), _number_list(element[key], device))
        raise UsageError(
            f"a batch with the keys {', '.join(map(str, element))} has no 'labels' or 'label' for "
            "the loss function; rename the key, or leave loss_fn out when the network returns its "
            "own loss",
            slug="batch-without-target",
        )
    if isinstance(element, tuple | list) and len(element) >= 2:
        *inputs, target = (place(item, device) for item in element)
        return Batch(tuple(inputs), {}, target)
    length = f" of {len(element)}" if isinstance(element, tuple | list) else ""
    raise UsageError(
        f"a batch for a loss function is (input, ..., target) or a dict with 'labels', not "
        f"a {type(element).__name__}{length}",
        slug="batch-without-target",
    )


def place(value: Any, device: torch.device) -> Any:
    """``value`` with every tensor on ``device`` and every numpy array a tensor there."""

    def move(item: Any) -> Any:
        if isinstance(item, np.ndarray | np.generic):
            item = torch.as_tensor(item)
        if isinstance(item, torch.Tensor):
            return item if item.device == device else item.to(device, non_blocking=True)
        return item.to(device) if hasattr(item, "to") else item

    return map_nested(value, move)


def _keywords(element: Mapping[Any, Any], device: torch.device) -> dict[str, Any]:
    return {str(key): _number_list(value, device) for key, value in element.items()}


def _number_list(value: Any, device: torch.device) -> Any:
    """A list of numbers (a row of a Hugging Face dataset without format) becomes a tensor."""
    first = value
    while isinstance(first, list) and first:
        first = first[0]
    if isinstance(value, list) and isinstance(first, bool | int | float):
        return torch.tensor(value).to(device, non_blocking=True)
    return place(value, device)


@dataclass(frozen=True, slots=True)
class StepResult:
    """Result of a step: its output (the loss), and with a loss scale the overflow and the scale."""

    output: Any
    overflow: bool | None = None
    scale: float | None = None


@dataclass(frozen=True, slots=True)
class Forward:
    """Computes outputs and loss of a batch. ``network`` may be compiled."""

    network: Callable[..., Any]
    loss_fn: Callable[..., Any] | None
    precision: ComputePrecision

    def batch(self, element: Any) -> Batch:
        split = whole_batch if self.loss_fn is None else split_batch
        batch = split(element, self.precision.device)
        cast = self.precision.inputs
        return Batch(cast(batch.arguments), cast(batch.keywords), batch.target)

    def outputs(self, batch: Batch) -> Any:
        return self.precision.outputs(batch.apply(self.network))

    def loss(self, outputs: Any, batch: Batch) -> Any:
        return outputs if self.loss_fn is None else self.loss_fn(outputs, batch.target)


@dataclass(slots=True)
class TrainStep:
    """Forward, backward, update. Without an optimizer the network does all three."""

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


def evaluation_outputs(
    forward: Forward, eval_network: Callable[..., Any] | None, element: Any
) -> tuple[Any, ...]:
    """Loss, prediction and target of one batch, or the outputs of ``eval_network``."""
    precision = forward.precision
    if eval_network is not None:
        with precision.context():
            outputs = whole_batch(element, precision.device).apply(eval_network)
        return tuple(outputs) if isinstance(outputs, tuple | list) else (outputs,)
    batch = forward.batch(element)
    with precision.context():
        outputs = forward.outputs(batch)
        loss = forward.loss(outputs, batch)
    return loss_of(loss), prediction_of(outputs), batch.target


def loss_of(output: Any) -> torch.Tensor:
    """The loss in the output of a network or loss function; it must be one number.

    It is ``loss`` of a mapping or object (Hugging Face), or the first item of a tuple.
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
    """The prediction in the outputs of a network: ``logits`` (Hugging Face), or all of them."""
    if isinstance(outputs, Mapping) and "logits" in outputs:
        return outputs["logits"]
    if not isinstance(outputs, torch.Tensor) and hasattr(outputs, "logits"):
        return outputs.logits
    return outputs


def _versions(module: nn.Module) -> list[int]:
    """How often each weight was written in place, which shows cheaply whether one was updated."""
    return [parameter._version for parameter in module.parameters()]
