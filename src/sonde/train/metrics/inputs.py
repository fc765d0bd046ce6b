"""What metrics are given, turned into tensors and checked against each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from sonde.train.metrics.contract import MetricInputError, MetricInputTypeError


def expect(owner: str, inputs: tuple[Any, ...], *names: str) -> None:
    """Refuse any other number of inputs than the names given."""
    if len(inputs) != len(names):
        raise MetricInputError(
            f"{owner}.update takes {len(names)} input{'s'[: len(names) != 1]} "
            f"({', '.join(names)}), not {len(inputs)}",
            slug="metric-input",
        )


def as_tensor(owner: str, value: Any) -> Tensor:
    """The value as a tensor outside the autograd graph, on the device where it is."""
    if isinstance(value, Tensor):
        return value.detach()
    if isinstance(value, (list, tuple, np.ndarray, np.generic)):
        # A copy: torch takes no array read backwards, and warns of one it may not write.
        return torch.from_numpy(np.array(value))
    raise MetricInputTypeError(
        f"{owner}.update takes tensors, lists and numpy arrays, not {type(value).__name__}",
        slug="metric-input",
    )


def as_numpy(owner: str, value: Any) -> np.ndarray:
    """The value as an array on the host; bfloat16 and narrower floats become float32, exactly."""
    tensor = as_tensor(owner, value).cpu()
    if tensor.is_floating_point() and tensor.dtype not in (torch.float32, torch.float64):
        tensor = tensor.float()
    array: np.ndarray = tensor.numpy()
    return array


def real_pair(owner: str, inputs: tuple[Any, ...]) -> tuple[Tensor, Tensor]:
    """Predictions and true values as float64 of one shape, on the host."""
    expect(owner, inputs, "predictions", "true values")
    preds = as_tensor(owner, inputs[0]).cpu().double()
    target = as_tensor(owner, inputs[1]).cpu().double()
    if preds.numel() != target.numel():
        raise _shapes(owner, preds, target, "they must have the same shape")
    return preds, target.reshape(preds.shape)


def is_one_hot(target: Tensor) -> bool:
    """Whether every sample has a single 1 along dimension 1 and 0 elsewhere."""
    if target.ndim < 2:
        return False
    ones = target == 1
    return bool((ones | (target == 0)).all()) and bool((ones.sum(1) == 1).all())


def class_pair(owner: str, inputs: tuple[Any, ...]) -> tuple[Tensor, Tensor, int]:
    """Scores ``(N, C, ...)``, labels ``(N, ...)`` as int64, and the number of classes.

    Labels may be one-hot ``(N, C, ...)`` and may be floats that hold integers.
    """
    expect(owner, inputs, "predictions", "labels")
    preds, target = as_tensor(owner, inputs[0]), as_tensor(owner, inputs[1])
    if preds.ndim == target.ndim and is_one_hot(target):
        target = target.argmax(1)
    if preds.ndim < 2 or preds.ndim != target.ndim + 1 or _without_classes(preds) != target.shape:
        raise _shapes(
            owner,
            preds,
            target,
            "predictions of shape (N, C, ...) need labels of shape (N, ...), or one-hot labels",
        )
    classes = preds.shape[1]
    return preds, class_labels(owner, target, classes), classes


def class_labels(owner: str, target: Tensor, classes: int) -> Tensor:
    """Labels as int64, each a class that exists."""
    whole = target.long()
    if target.is_floating_point() and not bool((whole == target).all()):
        raise MetricInputError(f"{owner}: labels must be whole numbers", slug="metric-input")
    if whole.numel() and (int(whole.min()) < 0 or int(whole.max()) >= classes):
        raise MetricInputError(
            f"{owner}: labels run from {int(whole.min())} to {int(whole.max())}, but the classes "
            f"are 0 to {classes - 1}",
            slug="metric-input",
        )
    return whole


def label_sets(owner: str, inputs: tuple[Any, ...]) -> tuple[Tensor, Tensor, int]:
    """Zeros and ones ``(N, C, ...)`` of predictions and labels as int64, and the label count."""
    expect(owner, inputs, "predictions", "labels")
    preds, target = as_tensor(owner, inputs[0]), as_tensor(owner, inputs[1])
    if preds.ndim < 2 or preds.shape != target.shape:
        raise _shapes(owner, preds, target, "both must have the same shape (N, C, ...)")
    for side, tensor in (("predictions", preds), ("labels", target)):
        if not bool(((tensor == 0) | (tensor == 1)).all()):
            raise MetricInputError(
                f"{owner}: multilabel {side} must be 0 or 1; threshold scores first",
                slug="metric-input",
            )
    return preds.long(), target.long(), preds.shape[1]


def _without_classes(preds: Tensor) -> torch.Size:
    return torch.Size((preds.shape[0], *preds.shape[2:]))


def _shapes(owner: str, preds: Tensor, target: Tensor, rule: str) -> MetricInputError:
    return MetricInputError(
        f"{owner}: predictions {tuple(preds.shape)} and labels {tuple(target.shape)} do not fit: "
        f"{rule}",
        slug="metric-input",
    )
