"""Turns the arguments of an op that are not tensors into text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

_ADDRESS = " at 0x"


def attributes_of(
    names: Sequence[str], args: Sequence[Any], kwargs: dict[str, Any] | None
) -> tuple[tuple[str, str], ...]:
    """The arguments without tensors, by their schema name, as text."""
    found = []
    for position, value in enumerate(args):
        if not _holds_tensor(value):
            name = names[position] if position < len(names) else f"arg{position}"
            found.append((name, attribute_text(value)))
    for name, value in (kwargs or {}).items():
        if not _holds_tensor(value):
            found.append((name, attribute_text(value)))
    return tuple(found)


def _holds_tensor(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(isinstance(item, torch.Tensor) for item in value)
    return isinstance(value, torch.Tensor)


def attribute_text(value: Any) -> str:
    """An argument as text, the same in every step and run."""
    text = repr(value)
    if _ADDRESS in text:
        text = type(value).__name__
    return text if len(text) <= 256 else text[:253] + "..."
