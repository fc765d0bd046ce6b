"""Operators to use in a network: ``Print``, which works in compiled code too.

Made in ``__init__`` and called in ``forward``. torch is imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sonde.adapters.torch.printing import Print, print, print_grad

__all__ = ["Print", "print", "print_grad"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'sonde.ops' has no attribute {name!r}")
    return getattr(import_module("sonde.adapters.torch.printing"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
