"""Loss scale: multiplies the loss, so that small float16 gradients do not become 0.

A *manager* decides the scale of the next step; ``one_step.LossScaling`` runs the step. *Scalers*
are for hand-written loops. *Update cells* are managers with MindSpore's second interface.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sonde.core.arguments import check_bool, check_positive_float, check_positive_int, wrong_value
from sonde.core.errors import SondeError
from sonde.train.nested import map_nested

SMALLEST_SCALE = 1.0
LARGEST_SCALE = float(torch.finfo(torch.float32).max)
MOST_OVERFLOWS_IN_A_ROW = 1000


class LossScaleError(SondeError, RuntimeError):
    """A scaled step that is not possible, or too many overflows in a row."""


@dataclass(slots=True)
class _DynamicScale:
    """A dynamic loss scale.

    An overflow divides the scale by ``factor``, not below 1. After ``window`` steps in a row
    without overflow it is multiplied by ``factor``, unless the result is too large for float32.
    """

    loss_scale: float
    factor: float
    window: int
    steps_without_overflow: int = 0
    overflows_in_a_row: int = 0

    def update(self, overflow: bool) -> None:
        if overflow:
            self.loss_scale = max(SMALLEST_SCALE, self.loss_scale / self.factor)
            self.steps_without_overflow = 0
            self.overflows_in_a_row += 1
            return
        self.overflows_in_a_row = 0
        self.steps_without_overflow += 1
        if self.steps_without_overflow == self.window:
            self.steps_without_overflow = 0
            if self.loss_scale * self.factor <= LARGEST_SCALE:
                self.loss_scale *= self.factor


_DYNAMIC_STATE = {"loss_scale": float, "steps_without_overflow": int, "overflows_in_a_row": int}


class LossScaleManager(ABC):
    """Decides the loss scale of each step."""

    @abstractmethod
    def get_loss_scale(self) -> float:
        """The scale of the next step."""

    @abstractmethod
    def update_loss_scale(self, overflow: bool) -> None:
        """Report whether the last step overflowed."""

    def get_drop_overflow_update(self) -> bool:
        """Whether a step that overflows does not update the weights."""
        return True

    def get_update_cell(self) -> LossScaleManager | None:
        """The cell for ``TrainOneStepWithLossScaleCell``, which shares this manager's scale."""
        return self

    def state_dict(self) -> dict[str, Any]:
        """State to save in order to continue with the same scales."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027 - optional
        """Restore the state that ``state_dict`` returned."""


class FixedLossScaleManager(LossScaleManager):
    """A constant scale.

    Without ``drop_overflow_update`` the weights are updated even when gradients are NaN or Inf.
    """

    def __init__(self, loss_scale: float = 128.0, drop_overflow_update: bool = True) -> None:
        self._loss_scale = _checked_scale(loss_scale, "loss_scale", type(self).__name__)
        self._drop = check_bool(drop_overflow_update, "drop_overflow_update", type(self).__name__)

    def get_loss_scale(self) -> float:
        return self._loss_scale

    def update_loss_scale(self, overflow: bool) -> None:
        """Nothing: the scale is fixed."""

    def get_drop_overflow_update(self) -> bool:
        return self._drop

    def get_update_cell(self) -> LossScaleManager | None:
        """A cell with this scale; None if overflow does not drop the update."""
        return FixedLossScaleUpdateCell(self._loss_scale) if self._drop else None


class DynamicLossScaleManager(LossScaleManager):
    """A scale that falls with each overflow and rises after ``scale_window`` steps without one.

    It never falls below 1. More than 1000 overflows in a row are a ``LossScaleError``: the scale is
    not the cause.
    """

    def __init__(
        self, init_loss_scale: float = 2**24, scale_factor: float = 2, scale_window: int = 2000
    ) -> None:
        self._rule = _dynamic(type(self).__name__, init_loss_scale, scale_factor, scale_window)

    @property
    def scale_factor(self) -> float:
        return self._rule.factor

    @property
    def scale_window(self) -> int:
        return self._rule.window

    def get_loss_scale(self) -> float:
        return self._rule.loss_scale

    def update_loss_scale(self, overflow: bool) -> None:
        self._rule.update(bool(overflow))
        if self._rule.overflows_in_a_row > MOST_OVERFLOWS_IN_A_ROW:
            raise LossScaleError(
                f"{self._rule.overflows_in_a_row} steps in a row overflowed, the last with a loss "
                f"scale of {self._rule.loss_scale}: the network itself produces NaN or Inf; find "
                "the first operator that does",
                slug="loss-scale-overflow",
            )

    def get_update_cell(self) -> LossScaleManager:
        cell = DynamicLossScaleUpdateCell(1, 2, 1)
        cell._rule = self._rule
        return cell

    def state_dict(self) -> dict[str, Any]:
        return {name: getattr(self._rule, name) for name in _DYNAMIC_STATE}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, kind in _DYNAMIC_STATE.items():
            setattr(self._rule, name, kind(state[name]))


class FixedLossScaleUpdateCell(FixedLossScaleManager):
    """A fixed scale for ``TrainOneStepWithLossScaleCell``; overflow drops the update."""

    def __init__(self, loss_scale_value: float) -> None:
        super().__init__(loss_scale_value)

    def __call__(self, loss_scale: Tensor, overflow: bool | Tensor) -> bool | Tensor:
        """Return ``overflow`` unchanged; the scale is fixed."""
        return overflow


class DynamicLossScaleUpdateCell(DynamicLossScaleManager):
    """A dynamic scale for ``TrainOneStepWithLossScaleCell``."""

    def __init__(self, loss_scale_value: float, scale_factor: float, scale_window: int) -> None:
        super().__init__(loss_scale_value, scale_factor, scale_window)

    def __call__(self, loss_scale: Tensor, overflow: bool | Tensor) -> bool | Tensor:
        """Write the next scale into the tensor ``loss_scale``; return ``overflow`` unchanged."""
        self.update_loss_scale(bool(overflow))
        loss_scale.fill_(self.get_loss_scale())
        return overflow


class LossScaler(ABC):
    """Scaling for a hand-written loop: ``scale`` the loss, ``unscale`` the gradients, ``adjust``.

    Tensors, and tuples and lists of them, keep their type and element type.
    """

    @property
    @abstractmethod
    def scale_value(self) -> float:
        """The current scale."""

    def scale(self, inputs: Any) -> Any:
        """The inputs times the scale."""
        return map_nested(inputs, lambda tensor: tensor * self.scale_value)

    def unscale(self, inputs: Any) -> Any:
        """The inputs divided by the scale."""
        return map_nested(inputs, lambda tensor: tensor / self.scale_value)

    @abstractmethod
    def adjust(self, grads_finite: bool | Tensor) -> bool:
        """Report whether all gradients were finite; returns whether the scale is dynamic."""


class StaticLossScaler(LossScaler):
    """A constant scale."""

    def __init__(self, scale_value: float) -> None:
        self._scale_value = _checked_scale(scale_value, "scale_value", "StaticLossScaler")

    @property
    def scale_value(self) -> float:
        return self._scale_value

    def adjust(self, grads_finite: bool | Tensor) -> bool:
        return False


class DynamicLossScaler(LossScaler):
    """A scale that falls with each overflow and rises after ``scale_window`` steps without one."""

    def __init__(self, scale_value: float, scale_factor: float, scale_window: int) -> None:
        self._rule = _dynamic("DynamicLossScaler", scale_value, scale_factor, scale_window)

    @property
    def scale_value(self) -> float:
        return self._rule.loss_scale

    def adjust(self, grads_finite: bool | Tensor) -> bool:
        self._rule.update(not bool(grads_finite))
        return True


def all_finite(inputs: Tensor | Iterable[Tensor | None]) -> Tensor:
    """Whether no element is NaN or Inf, as a tensor of one bool; True for nothing at all.

    A None (a parameter without gradient) counts as finite.
    """
    listed = [inputs] if isinstance(inputs, Tensor) else [one for one in inputs if one is not None]
    if not listed:
        return torch.tensor(True)
    device = listed[0].device
    return torch.stack([torch.isfinite(one).all().to(device) for one in listed]).all()


def _dynamic(owner: str, scale: float, factor: float, window: int) -> _DynamicScale:
    check_positive_float(factor, "scale_factor", owner)
    if factor <= 1:
        raise wrong_value("scale_factor", owner, "must be greater than 1", factor)
    check_positive_int(window, "scale_window", owner)
    return _DynamicScale(_checked_scale(scale, "loss scale", owner), float(factor), window)


def _checked_scale(scale: float, name: str, owner: str) -> float:
    value = check_positive_float(scale, name, owner)
    if not SMALLEST_SCALE <= value <= LARGEST_SCALE:
        raise wrong_value(name, owner, "must be at least 1 and fit float32", scale)
    return value
