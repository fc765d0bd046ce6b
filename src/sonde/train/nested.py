"""Applies a function to every item inside nested tuples, lists and mappings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def map_nested(value: Any, change: Callable[[Any], Any]) -> Any:
    """``value`` with ``change`` applied to each item that is not a tuple, list or mapping.

    Tuples (named ones too) and lists keep their type; mappings become dicts.
    """
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(map_nested(item, change) for item in value))
    if isinstance(value, tuple | list):
        return type(value)(map_nested(item, change) for item in value)
    if isinstance(value, Mapping):
        return {key: map_nested(item, change) for key, item in value.items()}
    return change(value)
