"""Reads the variables of the user's frames without prolonging the life of their values."""

from __future__ import annotations

import sys
from inspect import CO_OPTIMIZED
from types import FrameType
from typing import Any

_UNSHARED = 3
"""The reference count of a dictionary of variables that the program does not have: references of
the frame, of `variables_of` and of ``sys.getrefcount``."""


def variables_of(frame: FrameType) -> list[tuple[str, Any]]:
    """The local variables of ``frame`` with their values.

    Before Python 3.13 a function's frame keeps the dictionary that ``f_locals`` returns until the
    function returns, and with it every value that the program has dropped since. So the variables
    are removed from it again, except where the dictionary is in use: the program has it from
    ``locals()``, or a tracer or profiler is set, after which Python writes it back to the
    variables. Names that ``exec`` added stay.
    """
    variables = frame.f_locals
    found = list(variables.items())
    code = frame.f_code
    is_snapshot = code.co_flags & CO_OPTIMIZED and isinstance(variables, dict)
    if sys.gettrace() is not None or sys.getprofile() is not None:
        return found
    if is_snapshot and sys.getrefcount(variables) == _UNSHARED:
        for name in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
            variables.pop(name, None)
    return found
