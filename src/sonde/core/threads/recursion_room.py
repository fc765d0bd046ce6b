"""Room on Python's stack for Sonde's functions, which run on top of those of the program."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_FRAMES = 200


@contextmanager
def recursion_room() -> Iterator[None]:
    """Raise Python's recursion limit in this block by what Sonde's functions need.

    Without it, recursion of the program that just fits would end with a RecursionError. A limit
    that the program sets in the block stays.
    """
    raised = sys.getrecursionlimit() + _FRAMES
    sys.setrecursionlimit(raised)
    try:
        yield
    finally:
        if sys.getrecursionlimit() == raised:
            with suppress(RecursionError):  # The block is left deep inside a recursion.
                sys.setrecursionlimit(raised - _FRAMES)
