"""Finds the objects of a class: those that exist, and those whose methods run.

Those that exist are found without disturbing other threads, so not by ``gc.get_objects()``: while
its list exists, a ``tuple(...)`` that another thread is building from a generator has a second
reference, and Python ends it with "SystemError: bad argument to internal function".
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from typing import Any


def living_objects(*kinds: type) -> list[Any]:
    """The objects of these classes and of their subclasses; no code of the program runs.

    Every object refers to its class, so that the garbage collector finds it among what refers to
    the classes.
    """
    classes: dict[int, type] = {}
    for kind in kinds:
        classes |= {id(each): each for each in _with_subclasses(kind)}
    found: list[Any] = gc.get_referrers(*classes.values())
    # By type alone: ``isinstance`` would ask proxies of the program for their class.
    return [each for each in found if id(type(each)) in classes]


def calling_objects(kind: type) -> Iterator[Any]:
    """The objects of this class whose methods call the caller, near or far, the innermost first.
    Some frameworks do not tell a callback who calls it."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        caller = frame.f_locals.get("self")
        if isinstance(caller, kind):
            yield caller


def _with_subclasses(kind: type) -> Iterator[type]:
    yield kind
    subclasses: list[type] = type.__subclasses__(kind)
    for each in subclasses:
        yield from _with_subclasses(each)
