"""An event between threads that exceptions of signal handlers cannot break.

The methods of ``threading.Event``, ``threading.Condition`` and ``queue.Queue`` are Python functions
that hold a lock for a moment. A signal handler of the program that raises at that moment leaves the
lock locked: from then on both threads wait for ever. Between the training thread and another one,
Sonde uses this event, and ``queue.SimpleQueue``, whose methods no handler interrupts.
"""

from __future__ import annotations

import _thread


class ThreadEvent:
    """The same as ``threading.Event``, for one thread that waits, and clears it.

    An interrupted method can be called again. A wait may end early, without the event.
    """

    __slots__ = ("_is_set", "_lock")

    def __init__(self) -> None:
        self._is_set = False
        # Locked while the event is not set; at worst locked although it is set.
        self._lock = _thread.allocate_lock()
        self._lock.acquire()

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        try:
            self._lock.release()
        except RuntimeError:  # It is set already.
            return

    def clear(self) -> None:
        self._is_set = False
        self._lock.acquire(blocking=False)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it is set, at most ``seconds``; whether it is."""
        if not self._is_set and self._lock.acquire(timeout=-1 if seconds is None else seconds):
            self._let_others_through()
        return self._is_set

    def _let_others_through(self) -> None:
        try:
            self._lock.release()
        except RuntimeError:  # ``set`` was called meanwhile.
            return
