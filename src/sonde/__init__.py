"""Sonde: a debugger for neural-network training.

Importing it imports no framework; the names below are found when they are first used.
"""

from __future__ import annotations

import os
from importlib import import_module

from sonde.core import observation_variables as _variables

TYPE_CHECKING = False  # Type checkers know the name; ``typing`` itself is slow to import.
if TYPE_CHECKING:
    from typing import Any

    from sonde import ops as ops
    from sonde.api import breakpoint as breakpoint
    from sonde.api import (
        capture,
        debug,
        diagnose,
        guard,
        query,
        set_dump,
        set_seed,
        signals,
        statistics,
        step,
        trigger,
    )
    from sonde.context import GRAPH_MODE as GRAPH_MODE
    from sonde.context import PYNATIVE_MODE as PYNATIVE_MODE
    from sonde.context import get_context, set_auto_parallel_context, set_context
    from sonde.dump.reader import Dump
    from sonde.ops import print as print
    from sonde.ops import print_grad
    from sonde.tensor_display import show

__version__ = "0.1.0"

# Not ``print`` and ``breakpoint``: a star import should leave Python's own alone.
__all__ = [
    "Dump",
    "__version__",
    "capture",
    "debug",
    "diagnose",
    "get_context",
    "guard",
    "print_grad",
    "query",
    "set_auto_parallel_context",
    "set_context",
    "set_dump",
    "set_seed",
    "show",
    "signals",
    "statistics",
    "step",
    "trigger",
]

_HOMES = {
    "Dump": "sonde.dump.reader",
    "GRAPH_MODE": "sonde.context",
    "PYNATIVE_MODE": "sonde.context",
    "breakpoint": "sonde.api",
    "debug": "sonde.api",
    "diagnose": "sonde.api",
    "get_context": "sonde.context",
    "guard": "sonde.api",
    "load_ipython_extension": "sonde.integrations.notebook",
    "print": "sonde.ops",
    "print_grad": "sonde.ops",
    "query": "sonde.api",
    "set_auto_parallel_context": "sonde.context",
    "set_context": "sonde.context",
    "set_dump": "sonde.api",
    "set_seed": "sonde.api",
    "show": "sonde.tensor_display",
    "signals": "sonde.api",
    "statistics": "sonde.api",
    "step": "sonde.api",
    "trigger": "sonde.api",
    "unload_ipython_extension": "sonde.integrations.notebook",
}
_PACKAGES = (
    *("capture", "context", "debugger", "diagnosis", "train", "summary", "logs", "ops", "tune"),
)


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        # A package; ``sonde.capture(...)`` works because that package can be called.
        return import_module(f"sonde.{name}")
    home = _HOMES.get(name)
    if home is None:
        from sonde.core.text.missing_name import missing_name

        raise missing_name("sonde", name, [*_HOMES, *_PACKAGES])
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_PACKAGES})


if _variables.asking(os.environ):
    import_module("sonde.startup").say_at_exit_if_unused()
