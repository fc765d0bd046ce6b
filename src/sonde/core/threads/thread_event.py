"""An event between threads that exceptions of signal handlers cannot break.

The methods of ``threading.Event``, ``threading.Condition`` and ``queue.Queue`` are Python functions
that hold a lock for a moment. A signal handler of the program that raises at that moment leaves the
lock locked: from then on both threads wait for ever. Between the training thread and another one,
Sonde uses this event, and ``queue.SimpleQueue``, whose methods no handler interrupts.
"""

from __future__ import annotations

import queue
import time


class ThreadEvent:
    """The same as ``threading.Event``; a method that was interrupted can be called again."""

    __slots__ = ("_is_set", "_wakes")

    def __init__(self) -> None:
        self._is_set = False
        # An item wakes one thread that waits, which then looks whether the event is set. There may
        # be an item although it is not.
        self._wakes: queue.SimpleQueue[None] = queue.SimpleQueue()

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        self._wake()

    def clear(self) -> None:
        self._is_set = False

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it is set, at most ``seconds``; whether it is."""
        until = None if seconds is None else time.monotonic() + seconds
        while not self._is_set:
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                return False
            try:
                self._wakes.get(timeout=left)
            except queue.Empty:
                return self._is_set
        self._wake()  # Another thread may wait, too.
        return True

    def _wake(self) -> None:
        if self._wakes.empty():
            self._wakes.put(None)
