"""What one batch of a dataset means: inputs of the network, and the target of the loss.

A tuple or list is inputs followed by the target. A mapping (Hugging Face style) is keyword inputs
with the target under ``labels`` or ``label``. Anything else is the one input. Numpy arrays, and
lists of numbers inside a mapping, become tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sonde.core.errors import UsageError

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
    """Everything goes to the network (which computes its own loss)."""
    if isinstance(element, Mapping):
        target = next((element[key] for key in _TARGET_KEYS if key in element), None)
        return Batch((), _keywords(element, device), place(target, device))
    if isinstance(element, tuple | list):
        return Batch(tuple(place(item, device) for item in element), {})
    return Batch((place(element, device),), {})


def split_batch(element: Any, device: torch.device) -> Batch:
    """The target is taken out: it goes to the loss function, the rest to the network."""
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
    raise UsageError(
        f"a batch for a loss function is (input, ..., target) or a dict with 'labels', not "
        f"{_described(element)}",
        slug="batch-without-target",
    )


def place(value: Any, device: torch.device) -> Any:
    """``value`` with every tensor on ``device`` and every numpy array a tensor there."""
    if isinstance(value, torch.Tensor):
        return value if value.device == device else value.to(device, non_blocking=True)
    if isinstance(value, np.ndarray | np.generic):
        return torch.as_tensor(value).to(device, non_blocking=True)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(place(item, device) for item in value))
    if isinstance(value, tuple | list):
        return type(value)(place(item, device) for item in value)
    if isinstance(value, Mapping):
        return {key: place(item, device) for key, item in value.items()}
    if hasattr(value, "to"):
        return value.to(device)
    return value


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


def _described(element: Any) -> str:
    if isinstance(element, tuple | list):
        return f"a {type(element).__name__} of {len(element)}"
    return f"a {type(element).__name__}"
