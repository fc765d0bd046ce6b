"""Configuration, sessions, and what an adapter has to be.

The package is also the function ``sonde.capture(...)``: calling it starts a capture.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    """``sonde.capture`` names both this package and what people do with it."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # By name: the function stands above this layer.
        return import_module("sonde.api").capture(*args, **kwargs)


sys.modules[__name__].__class__ = _CallablePackage
