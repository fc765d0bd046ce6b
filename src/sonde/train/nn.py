"""The names of ``mindspore.nn`` that its documents use, on torch's modules and optimizers.

``from sonde.train import nn`` in place of ``from mindspore import nn``. ``Cell`` defines
``construct``; ``Dense`` and ``Conv2d`` take MindSpore's arguments; the optimizers take
``learning_rate``, a number, a schedule or a list. Metrics, schedules and loss scales are those of
``sonde.train``. Every other name is torch's module of that name with the methods of a ``Cell``.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch import nn as torch_nn

from sonde.core.arguments import wrong_value
from sonde.core.mindspore.absent_names import absent
from sonde.train.cell import Cell, CellMethods, NamedParameter
from sonde.train.learning_rate import (
    CosineDecayLR,
    ExponentialDecayLR,
    InverseDecayLR,
    LearningRateSchedule,
    NaturalExpDecayLR,
    PolynomialDecayLR,
    WarmUpLR,
    cosine_decay_lr,
    exponential_decay_lr,
    inverse_decay_lr,
    natural_exp_decay_lr,
    piecewise_constant_lr,
    polynomial_decay_lr,
    warmup_lr,
)
from sonde.train.loss_scale import DynamicLossScaleUpdateCell, FixedLossScaleUpdateCell
from sonde.train.one_step import TrainOneStepWithLossScaleCell, WithLossCell
from sonde.train.scheduled_optimizer import AnyOptimizer, follow_schedule

__all__ = [
    "SGD",
    "Adam",
    "Cell",
    "Conv2d",
    "CosineDecayLR",
    "Dense",
    "DynamicLossScaleUpdateCell",
    "ExponentialDecayLR",
    "FixedLossScaleUpdateCell",
    "InverseDecayLR",
    "LearningRateSchedule",
    "Momentum",
    "NaturalExpDecayLR",
    "PolynomialDecayLR",
    "SoftmaxCrossEntropyWithLogits",
    "TrainOneStepWithLossScaleCell",
    "TruncatedNormal",
    "WarmUpLR",
    "WithLossCell",
    "cosine_decay_lr",
    "exponential_decay_lr",
    "inverse_decay_lr",
    "natural_exp_decay_lr",
    "piecewise_constant_lr",
    "polynomial_decay_lr",
    "warmup_lr",
]

Initializer = Callable[[Tensor], object] | str | float | None


class TruncatedNormal:
    """Fills a weight with normal values of this deviation, none further than two of them from 0."""

    def __init__(self, sigma: float = 0.01) -> None:
        self.sigma = sigma

    def __call__(self, weight: Tensor) -> Tensor:
        return torch_nn.init.trunc_normal_(weight, 0.0, self.sigma, -2 * self.sigma, 2 * self.sigma)


_INITIALIZERS: dict[str, Callable[[Tensor], object]] = {
    "normal": functools.partial(torch_nn.init.normal_, std=0.01),
    "zeros": torch_nn.init.zeros_,
    "ones": torch_nn.init.ones_,
    "xavier_uniform": torch_nn.init.xavier_uniform_,
    "he_uniform": torch_nn.init.kaiming_uniform_,
}


def _initialise(weight: Tensor | None, initializer: Initializer) -> None:
    """Fill a weight; None leaves what torch has filled in."""
    if weight is None or initializer is None:
        return
    if isinstance(initializer, str):
        if initializer not in _INITIALIZERS:
            rule = f"must be one of {', '.join(_INITIALIZERS)}, a number, or a function"
            raise wrong_value("weight_init", None, rule, initializer)
        initializer = _INITIALIZERS[initializer]
    if isinstance(initializer, int | float):
        torch_nn.init.constant_(weight, initializer)
    else:
        initializer(weight)


class Dense(CellMethods, torch_nn.Linear):
    """torch's ``Linear`` with MindSpore's arguments."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        weight_init: Initializer = None,
        bias_init: Initializer = None,
        has_bias: bool = True,
    ) -> None:
        super().__init__(in_channels, out_channels, bias=has_bias)
        _initialise(self.weight, weight_init)
        _initialise(self.bias, bias_init)


class Conv2d(CellMethods, torch_nn.Conv2d):
    """torch's ``Conv2d`` with MindSpore's arguments; without a bias unless ``has_bias``."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] = 1,
        pad_mode: str = "same",
        padding: int | tuple[int, int] = 0,
        dilation: int | tuple[int, int] = 1,
        group: int = 1,
        has_bias: bool = False,
        weight_init: Initializer = None,
        bias_init: Initializer = None,
    ) -> None:
        if pad_mode not in ("same", "valid", "pad"):
            raise wrong_value("pad_mode", "Conv2d", "must be 'same', 'valid' or 'pad'", pad_mode)
        pad: Any = padding if pad_mode == "pad" else pad_mode
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            pad,
            dilation,
            group,
            bias=has_bias,
        )
        _initialise(self.weight, weight_init)
        _initialise(self.bias, bias_init)


class SoftmaxCrossEntropyWithLogits(CellMethods, torch_nn.CrossEntropyLoss):
    """torch's ``CrossEntropyLoss``; ``sparse``: labels are indexes, else one-hot (of floats)."""

    def __init__(self, sparse: bool = False, reduction: str = "none") -> None:
        super().__init__(reduction=reduction)
        self.sparse = sparse

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        target = labels.long() if self.sparse else labels.to(logits.dtype)
        return super().forward(logits, target)


def Adam(  # noqa: N802 - MindSpore's name
    params: Iterable[Any],
    learning_rate: Any = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
) -> torch.optim.Adam:
    """torch's ``Adam``. It adds ``eps`` after the correction of the bias, MindSpore before it."""
    return _optimizer(
        torch.optim.Adam,
        params,
        learning_rate,
        betas=(beta1, beta2),
        eps=eps,
        weight_decay=weight_decay,
    )


def Momentum(  # noqa: N802 - MindSpore's name
    params: Iterable[Any],
    learning_rate: Any,
    momentum: float,
    weight_decay: float = 0.0,
    use_nesterov: bool = False,
) -> torch.optim.SGD:
    """torch's ``SGD`` with momentum."""
    return SGD(params, learning_rate, momentum, 0.0, weight_decay, use_nesterov)


def SGD(  # noqa: N802 - MindSpore's name
    params: Iterable[Any],
    learning_rate: Any = 0.1,
    momentum: float = 0.0,
    dampening: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
) -> torch.optim.SGD:
    """torch's ``SGD``."""
    return _optimizer(
        torch.optim.SGD,
        params,
        learning_rate,
        momentum=momentum,
        dampening=dampening,
        weight_decay=weight_decay,
        nesterov=nesterov,
    )


def _optimizer(
    kind: type[AnyOptimizer], params: Iterable[Any], learning_rate: Any, **options: Any
) -> AnyOptimizer:
    make: Any = kind
    tensors = [each.parameter if isinstance(each, NamedParameter) else each for each in params]
    if isinstance(learning_rate, LearningRateSchedule | list | tuple):
        scheduled: AnyOptimizer = make(tensors, lr=0.0, **options)
        return follow_schedule(scheduled, learning_rate)
    plain: AnyOptimizer = make(tensors, lr=learning_rate, **options)
    return plain


def __getattr__(name: str) -> Any:
    absent(__name__, name)
    found = getattr(torch_nn, name, None)
    if isinstance(found, type) and issubclass(found, torch_nn.Module):
        # A module of torch with the methods of a Cell, under its own name; made once.
        made = type(name, (CellMethods, found), {"__module__": __name__, "__doc__": found.__doc__})
        return globals().setdefault(name, made)
    metrics = importlib.import_module("sonde.train.metrics")
    if name in metrics.__all__:
        return getattr(metrics, name)
    if found is None:
        from sonde.core.text.missing_name import missing_name

        raise missing_name(__name__, name, [*__all__, *metrics.__all__, *_torch_modules()])
    return found


def _torch_modules() -> list[str]:
    return [name for name, value in vars(torch_nn).items() if isinstance(value, type)]


def __dir__() -> list[str]:
    return sorted({*globals(), *_torch_modules()})
