"""A training step with a scaled loss, as an object and as a module; a network with its loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from sonde.core.arguments import wrong_type, wrong_value
from sonde.train.cell import CellMethods
from sonde.train.loss_scale import FixedLossScaleUpdateCell, LossScaleError, LossScaleManager


class LossScaling:
    """One optimizer's scaled steps, on ``torch.amp.GradScaler``.

    A step scales the loss, runs backward, unscales the gradients, checks them for NaN and Inf,
    updates the weights if there are none, and reports to the manager.

    ``step(loss)`` runs backward and update and returns whether the step overflowed; ``scale`` is
    the scale it used. The gradients are unscaled afterwards. The weights must not be float16: keep
    them in float32 and compute in float16 under ``torch.autocast``.
    """

    def __init__(self, optimizer: Optimizer, manager: LossScaleManager) -> None:
        self.optimizer = optimizer
        self.manager = manager
        self.scale = manager.get_loss_scale()
        self._scaler: torch.amp.GradScaler | None = None

    def step(self, loss: Tensor) -> bool:
        """Backward with the scaled loss (its sum, if not one number), then the update."""
        self._check_weights()
        scaler = self._scaler_for(loss)
        scaler.scale(loss).sum().backward()  # type: ignore[no-untyped-call]
        if all(parameter.grad is None for parameter in _parameters(self.optimizer)):
            raise LossScaleError(
                "no parameter of the optimizer got a gradient: the loss does not depend on them",
                slug="loss-scale-no-gradient",
            )
        scaler.unscale_(self.optimizer)
        if self.manager.get_drop_overflow_update():
            scaler.step(self.optimizer)
        else:
            self.optimizer.step()
        # GradScaler reports an overflow only by lowering its scale.
        before = scaler.get_scale()
        scaler.update()
        overflow = scaler.get_scale() < before
        if overflow:
            scaler.update(self.scale)
        self.manager.update_loss_scale(overflow)
        return overflow

    def _scaler_for(self, loss: Tensor) -> torch.amp.GradScaler:
        """The scaler, with the manager's scale for this step."""
        wanted = float(self.manager.get_loss_scale())
        if self._scaler is None:
            # Its own growth is disabled: the manager decides.
            self._scaler = torch.amp.GradScaler(
                loss.device.type, init_scale=wanted, growth_interval=2**31 - 1
            )
        elif wanted != self.scale:
            self._scaler.update(wanted)
        self.scale = wanted
        return self._scaler

    def _check_weights(self) -> None:
        if any(parameter.dtype == torch.float16 for parameter in _parameters(self.optimizer)):
            raise LossScaleError(
                "the weights are float16, whose gradients torch does not unscale: keep them in "
                "float32 and compute under torch.autocast(..., dtype=torch.float16)",
                slug="loss-scale-float16-weights",
            )


class WithLossCell(CellMethods):
    """A network and its loss function as one module: data and label in, loss out."""

    def __init__(self, backbone: nn.Module, loss_fn: Callable[..., Any]) -> None:
        super().__init__()
        self.backbone_network = backbone
        self.loss_fn = loss_fn

    def forward(self, data: Any, label: Any) -> Any:
        return self.loss_fn(self.backbone_network(data), label)


class TrainOneStepWithLossScaleCell(CellMethods):
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


def _parameters(optimizer: Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
