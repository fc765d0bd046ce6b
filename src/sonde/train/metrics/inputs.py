"""Converts the inputs of metrics to tensors and checks them against each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from sonde.train.metrics.contract import MetricInputError, MetricInputTypeError


def tensors(owner: str, inputs: tuple[Any, ...], *names: str) -> tuple[Tensor, ...]:
    """The inputs as tensors; an error if there are more or fewer than ``names``."""
    expect(owner, inputs, *names)
    return tuple(as_tensor(owner, value) for value in inputs)


def expect(owner: str, inputs: tuple[Any, ...], *names: str) -> None:
    """Raise an error unless there is one input for each name."""
    if len(inputs) != len(names):
        raise MetricInputError(
            f"{owner}.update takes {len(names)} input{'s'[: len(names) != 1]} "
            f"({', '.join(names)}), not {len(inputs)}"
        )


def as_tensor(owner: str, value: Any) -> Tensor:
    """The value as a tensor outside the autograd graph; a tensor stays on its device."""
    if isinstance(value, Tensor):
        return value.detach()
    if isinstance(value, np.ma.MaskedArray):
        raise MetricInputTypeError(
            f"{owner}.update takes no masked arrays; leave the masked elements out first"
        )
    if isinstance(value, (list, tuple, np.ndarray, np.generic)):
        # A copy, because torch rejects negative strides and warns about read-only arrays.
        return torch.from_numpy(np.array(value))
    raise MetricInputTypeError(
        f"{owner}.update takes tensors, lists and numpy arrays, not {type(value).__name__}"
    )


def as_numpy(value: Tensor) -> np.ndarray:
    """The value as an array; bfloat16 and narrower floats become float32, exactly."""
    if value.is_floating_point() and value.dtype not in (torch.float32, torch.float64):
        value = value.float()
    array: np.ndarray = value.detach().cpu().numpy()
    return array


def real_pair(owner: str, inputs: tuple[Any, ...]) -> tuple[Tensor, Tensor]:
    """Predictions and true values as float64 of the same shape, on the CPU."""
    preds, target = tensors(owner, inputs, "predictions", "true values")
    if preds.numel() != target.numel():
        raise _mismatch(owner, preds, target, "they must have the same shape")
    return preds.cpu().double(), target.cpu().double().reshape(preds.shape)


def is_one_hot(target: Tensor) -> bool:
    """Whether every sample has a single 1 along dimension 1 and 0 elsewhere."""
    if target.ndim < 2:
        return False
    ones = target == 1
    return is_binary(target) and bool((ones.sum(1) == 1).all())


def is_binary(values: Tensor) -> bool:
    """Whether all values are 0 or 1."""
    return bool(((values == 0) | (values == 1)).all())


def class_pair(owner: str, inputs: tuple[Any, ...]) -> tuple[Tensor, Tensor, int]:
    """Scores ``(N, C, ...)``, labels ``(N, ...)`` as int64, and the number of classes.

    Labels may be one-hot ``(N, C, ...)`` and may be floats with integer values.
    """
    preds, target = tensors(owner, inputs, "predictions", "labels")
    if preds.ndim == target.ndim and is_one_hot(target):
        target = target.argmax(1)
    if preds.ndim < 2 or (preds.shape[0], *preds.shape[2:]) != tuple(target.shape):
        rule = "predictions of shape (N, C, ...) need labels of shape (N, ...), or one-hot labels"
        raise _mismatch(owner, preds, target, rule)
    classes = preds.shape[1]
    return preds, class_labels(owner, target, classes), classes


def class_labels(owner: str, target: Tensor, classes: int) -> Tensor:
    """Labels as int64, checked to be classes that exist."""
    whole = target.long()
    if target.is_floating_point() and not bool((whole == target).all()):
        raise MetricInputError(f"{owner}: labels must be whole numbers")
    if whole.numel() and (int(whole.min()) < 0 or int(whole.max()) >= classes):
        raise MetricInputError(
            f"{owner}: labels run from {int(whole.min())} to {int(whole.max())}, but the classes "
            f"are 0 to {classes - 1}"
        )
    return whole


def label_sets(owner: str, inputs: tuple[Any, ...]) -> tuple[Tensor, Tensor, int]:
    """Zeros and ones ``(N, C, ...)`` of predictions and labels as int64, and the label count."""
    preds, target = tensors(owner, inputs, "predictions", "labels")
    if preds.ndim < 2 or preds.shape != target.shape:
        raise _mismatch(owner, preds, target, "both must have the same shape (N, C, ...)")
    for side, tensor in (("predictions", preds), ("labels", target)):
        if not is_binary(tensor):
            raise MetricInputError(
                f"{owner}: multilabel {side} must be 0 or 1; threshold scores first"
            )
    return preds.long(), target.long(), preds.shape[1]


def _mismatch(owner: str, preds: Tensor, target: Tensor, rule: str) -> MetricInputError:
    return MetricInputError(
        f"{owner}: predictions {tuple(preds.shape)} and labels {tuple(target.shape)} do not fit: "
        f"{rule}"
    )
