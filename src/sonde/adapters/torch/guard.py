"""Keeps failures of Sonde away from the training, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType


class FailureGuard:
    """``with guard:`` hands an Exception raised in the block to ``failed``; the program goes on.

    Only for blocks of Sonde's own code. ``failed`` raises the exception again if it is one of the
    program, such as that of a signal handler (`core.interruption`). A guard has no state, so that
    its blocks may be nested.
    """

    __slots__ = ("_failed",)

    def __init__(self, failed: Callable[[Exception], None]) -> None:
        self._failed = failed

    def __enter__(self) -> None:
        """There is nothing to prepare."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if isinstance(error, Exception):
            self._failed(error)
            return True
        return False
