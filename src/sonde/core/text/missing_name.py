"""The error for a name that a module does not have, with the names that are similar to it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from opcode import opmap
from types import FrameType

from sonde.core.settings import nearest

_MOST = 3


def missing_name(module: str, name: str, known: Iterable[str], more: str = "") -> Exception:
    """The error that the ``__getattr__`` of a module raises for a name it does not have.

    ``known`` are the names that it has; ``more`` ends the message. ``from module import name``
    replaces an AttributeError by an error without this text, so that such a statement gets an
    ImportError; everything else, such as ``hasattr``, needs an AttributeError.
    """
    text = f"module {module!r} has no attribute {name!r}{nearest(name, known, most=_MOST)}{more}"
    if _is_import_statement(sys._getframe(2)):
        return ImportError(text, name=module)
    return AttributeError(text)


def _is_import_statement(frame: FrameType) -> bool:
    """Whether the instruction that this frame executes is the ``import name`` of ``from ...``."""
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_FROM"]
