"""Splits a batch of a dataset into the inputs of the network and the target of the loss.

A tuple or list is inputs followed by the target. A mapping (Hugging Face style) is keyword inputs
with the target under ``labels`` or ``label``. Anything else is a single input. Numpy arrays, and
lists of numbers inside a mapping, become tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sonde.core.errors import UsageError
from sonde.train.nested import map_nested

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
