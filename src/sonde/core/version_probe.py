"""Checks that the installed torch has the private names that a part of Sonde needs.

Each sub-package that uses private names of torch lists them in its ``private`` module.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable

from sonde.core.errors import TorchVersionError


def require(purpose: str, names: Iterable[str]) -> None:
    """Raise TorchVersionError that lists the missing ``names``; return if there are none.

    A name is a module and an attribute path in it, such as ``torch._C:_autograd._get_sequence_nr``,
    or a module alone. ``purpose`` completes "which ... needs".
    """
    missing = [name.replace(":", ".") for name in names if not _exists(name)]
    if missing:
        version = importlib.import_module("torch").__version__
        raise TorchVersionError(version, f"{', '.join(missing)}, which {purpose} needs")


def _exists(name: str) -> bool:
    module, _, path = name.partition(":")
    try:
        value: object = importlib.import_module(module)
        for attribute in path.split(".") if path else ():
            value = getattr(value, attribute)
    except (ImportError, AttributeError):
        return False
    return True
