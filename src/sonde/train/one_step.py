"""A network with its loss, and a whole scaled training step, each as one module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from sonde.train.loss_scale import FixedLossScaleUpdateCell, LossScaleManager, LossScaling
from sonde.train.validator import wrong_type, wrong_value


class WithLossCell(nn.Module):
    """A network and its loss function as one module: data and label in, loss out."""

    def __init__(self, backbone: nn.Module, loss_fn: Callable[..., Any]) -> None:
        super().__init__()
        self.backbone_network = backbone
        self.loss_fn = loss_fn

    def forward(self, data: Any, label: Any) -> Any:
        return self.loss_fn(self.backbone_network(data), label)


class TrainOneStepWithLossScaleCell(nn.Module):
    """A whole training step as a module: a batch in; loss, overflow and scale out.

    ``network`` returns the loss. ``scale_sense`` is an update cell, a manager, a number, or a
    tensor of one number. ``state_dict`` includes the state of a dynamic scale.
    """

    def __init__(self, network: nn.Module, optimizer: Optimizer, scale_sense: Any) -> None:
        super().__init__()
        self.network = network
        self.optimizer = optimizer
        self._scaling = LossScaling(optimizer, _manager_of(scale_sense))

    def forward(self, *inputs: Any) -> tuple[Tensor, bool, float]:
        """Train on this batch: the loss, whether the step overflowed, and the scale it used.

        A step that overflows does not update the weights.
        """
        self.optimizer.zero_grad(set_to_none=True)
        loss: Tensor = self.network(*inputs)
        overflow = self._scaling.step(loss)
        return loss.detach(), overflow, self._scaling.scale

    def set_sense_scale(self, sens: float | Tensor) -> None:
        """Use this fixed scale from the next step on."""
        self._scaling.manager = _manager_of(sens)

    def get_extra_state(self) -> Tensor:
        """The state of the scale as a tensor, for checkpoint files."""
        manager = self._scaling.manager
        numbers = [manager.get_loss_scale(), *manager.state_dict().values()]
        return torch.tensor(numbers, dtype=torch.float64)

    def set_extra_state(self, state: Tensor) -> None:
        manager = self._scaling.manager
        _, *numbers = state.tolist()
        manager.load_state_dict(dict(zip(manager.state_dict(), numbers, strict=True)))


def _manager_of(scale_sense: Any) -> LossScaleManager:
    if isinstance(scale_sense, LossScaleManager):
        return scale_sense
    owner = "TrainOneStepWithLossScaleCell"
    if isinstance(scale_sense, Tensor):
        if scale_sense.shape not in ((), (1,)):
            raise wrong_value("scale_sense", owner, "must be one number", scale_sense)
        scale_sense = scale_sense.item()
    if isinstance(scale_sense, bool) or not isinstance(scale_sense, (int, float)):
        raise wrong_type("scale_sense", owner, "must be an update cell or a number", scale_sense)
    return FixedLossScaleUpdateCell(scale_sense)
