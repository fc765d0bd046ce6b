"""Converts nested training state to one JSON text plus a list of tensors, and back.

Lists, tuples and dicts of numbers, text, None and tensors become text in which each tensor is a
reference. Floats are exact (JSON's shortest form reads back exactly; NaN and the infinities, which
JSON lacks, are tagged). Any other type is an error that names the path to the value.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from sonde.core.files.mindspore_ckpt import CheckpointError


def flatten(state: Mapping[str, Any]) -> tuple[str, list[torch.Tensor]]:
    """``state`` as text and the tensors that its references number."""
    tensors: list[torch.Tensor] = []
    return json.dumps(_pack(state, tensors, "state"), allow_nan=False), tensors


def unflatten(text: str, tensors: list[torch.Tensor]) -> dict[str, Any]:
    """The inverse of ``flatten``."""
    try:
        state = _unpack(json.loads(text), tensors)
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise CheckpointError(
            f"the training state of this checkpoint cannot be read: {error}",
            slug="checkpoint-damaged",
        ) from error
    if not isinstance(state, dict):
        raise CheckpointError("the training state is not a dict", slug="checkpoint-damaged")
    return state


def is_plain(value: Any) -> bool:
    """Whether ``flatten`` accepts ``value``."""
    try:
        _pack(value, [], "value")
    except CheckpointError:
        return False
    return True


def _pack(value: Any, tensors: list[torch.Tensor], path: str) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, np.generic):
        return _pack(value.item(), tensors, path)
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, torch.Tensor | np.ndarray):
        tensors.append(torch.as_tensor(value))
        return {"$tensor": len(tensors) - 1}
    if isinstance(value, list):
        return [_pack(item, tensors, f"{path}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, tuple):
        return {"$tuple": [_pack(item, tensors, f"{path}[{i}]") for i, item in enumerate(value)]}
    if isinstance(value, Mapping):
        pairs = [
            (_pack(key, tensors, f"{path} key"), _pack(item, tensors, f"{path}[{key!r}]"))
            for key, item in value.items()
        ]
        if all(isinstance(key, str) and not key.startswith("$") for key, _ in pairs):
            return dict(pairs)
        return {"$dict": [list(pair) for pair in pairs]}
    raise CheckpointError(
        f"{path} is a {type(value).__name__}, which a checkpoint cannot hold; "
        "state_dict() may return numbers, text, lists, dicts and tensors",
        slug="checkpoint-state",
    )


def _unpack(value: Any, tensors: list[torch.Tensor]) -> Any:
    if isinstance(value, list):
        return [_unpack(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    if "$float" in value:
        return float(value["$float"])
    if "$tensor" in value:
        return tensors[value["$tensor"]]
    if "$tuple" in value:
        return tuple(_unpack(item, tensors) for item in value["$tuple"])
    if "$dict" in value:
        return {_unpack(key, tensors): _unpack(item, tensors) for key, item in value["$dict"]}
    return {key: _unpack(item, tensors) for key, item in value.items()}
