"""``mindspore.context`` as its documents use it: ``import sonde.context as context``.

``reserve_class_name_in_scope`` has its effect. The other options of the documents have none with
PyTorch: each is said once, in one line, with what to use instead, and the program goes on.
"""

from __future__ import annotations

import logging
from enum import Enum
from typing import Any

from sonde import logs
from sonde.core.arguments import check_bool
from sonde.core.errors import UsageError
from sonde.core.mindspore.absent_names import OPTIONS
from sonde.core.mindspore.program_settings import PROGRAM
from sonde.core.settings import nearest

__all__ = [
    "GRAPH_MODE",
    "PYNATIVE_MODE",
    "ParallelMode",
    "get_context",
    "set_auto_parallel_context",
    "set_context",
]

GRAPH_MODE = 0
PYNATIVE_MODE = 1

_RESERVE = "reserve_class_name_in_scope"
_log = logging.getLogger("sonde.train")
_said: set[str] = set()
_given: dict[str, Any] = {"mode": PYNATIVE_MODE}


class ParallelMode(str, Enum):
    """The modes of ``set_auto_parallel_context``."""

    STAND_ALONE = "stand_alone"
    DATA_PARALLEL = "data_parallel"


def set_context(**options: Any) -> None:
    """Set options of this process.

    ``reserve_class_name_in_scope=False`` leaves the classes out of scopes, so that names are
    shorter: ``Default/network/fc/addmm-op0``. It concerns networks that were not called yet.
    """
    unknown = [name for name in options if name not in OPTIONS and name != _RESERVE]
    if unknown:
        hint = nearest(unknown[0], [_RESERVE, *OPTIONS])
        raise UsageError(f"set_context has no option {unknown[0]!r}{hint}", slug="context-option")
    for name, value in options.items():
        if name == _RESERVE:
            PROGRAM.class_names_in_scopes = check_bool(value, _RESERVE, "set_context")
        elif name not in _said:
            _said.add(name)
            logs.configure()
            _log.warning("set_context(%s=...) has no effect here: %s", name, OPTIONS[name])
        _given[name] = value


def get_context(name: str) -> Any:
    """The value of an option; None if it was never set."""
    if name == _RESERVE:
        return PROGRAM.class_names_in_scopes
    return _given.get(name)


set_auto_parallel_context = set_context
