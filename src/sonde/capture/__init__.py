"""The configuration of a capture, and the session that passes op calls to sinks.

The package is also the function ``sonde.capture(...)``: calling it starts a capture.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _CallablePackage(ModuleType):
    """``sonde.capture`` is both this package and a function."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # By name: the function is in a layer above this one.
        return import_module("sonde.api").capture(*args, **kwargs)


sys.modules[__name__].__class__ = _CallablePackage
