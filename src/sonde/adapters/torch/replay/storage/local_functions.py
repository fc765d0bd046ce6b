"""Pickles functions that pickle does not find by name: lambdas and functions inside functions.

Such a function is kept as its code, its defaults, the values of its closure, and the name of the
module whose globals it uses. Hooks and small parts of networks are often written that way.
"""

from __future__ import annotations

import importlib
import marshal
import sys
from types import CellType, FunctionType
from typing import Any

from sonde.core.interruption import pass_on

_VERSION = sys.version_info[:2]


def reduce_function(function: FunctionType) -> tuple[Any, ...] | None:
    """What pickle needs to rebuild a function; None if it is found by its name."""
    module = sys.modules.get(function.__module__ or "")
    found: Any = module
    for part in function.__qualname__.split("."):
        found = getattr(found, part, None)
    if found is function:
        return None
    cells = function.__closure__ or ()
    contents = tuple(_contents(cell) for cell in cells)
    made = (
        _VERSION,
        marshal.dumps(function.__code__),
        function.__module__ or "builtins",
        function.__name__,
        function.__qualname__,
        len(cells),
    )
    # The closure may refer to the function itself, so it is set when the function exists.
    state = (function.__defaults__, function.__kwdefaults__, contents, dict(function.__dict__))
    return make_function, made, state, None, None, complete_function


def make_function(
    version: tuple[int, int], code: bytes, module: str, name: str, qualname: str, cells: int
) -> FunctionType:
    if version != _VERSION:
        raise ImportError(
            f"the function {qualname} was kept by Python {version[0]}.{version[1]}, and this is "
            f"Python {_VERSION[0]}.{_VERSION[1]}"
        )
    closure = tuple(CellType() for _ in range(cells))
    names = importlib.import_module(module).__dict__
    function = FunctionType(marshal.loads(code), names, name, None, closure)
    function.__qualname__ = qualname
    function.__module__ = module
    return function


def complete_function(function: FunctionType, state: tuple[Any, ...]) -> None:
    defaults, keyword_defaults, contents, attributes = state
    function.__defaults__ = defaults
    function.__kwdefaults__ = keyword_defaults
    for cell, content in zip(function.__closure__ or (), contents, strict=True):
        if content:
            cell.cell_contents = content[0]
    function.__dict__.update(attributes)


def _contents(cell: CellType) -> tuple[Any, ...]:
    """The value of a variable of a closure in a tuple, which is empty if it has none yet."""
    try:
        return (cell.cell_contents,)
    except ValueError as error:
        pass_on(error)
        return ()
