"""Requests to keep the running step: ``sonde.trigger()`` and SIGUSR2."""

from __future__ import annotations

import signal
import threading
from contextlib import ExitStack
from types import FrameType
from typing import Literal

from sonde.monitor.triggers import Trigger


class Requests:
    """Collects requests until the running step is judged. Any thread may add one."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Literal["call", "signal"], str]] = []

    def install(self, undo: ExitStack) -> None:
        """Listen for SIGUSR2 until ``undo`` is closed, unless the program does so itself."""
        if threading.current_thread() is not threading.main_thread():
            return
        if not hasattr(signal, "SIGUSR2") or signal.getsignal(signal.SIGUSR2) != signal.SIG_DFL:
            return
        signal.signal(signal.SIGUSR2, self._received)

        def restore() -> None:
            if signal.getsignal(signal.SIGUSR2) == self._received:
                signal.signal(signal.SIGUSR2, signal.SIG_DFL)

        undo.callback(restore)

    def add(self, kind: Literal["call", "signal"], text: str) -> None:
        self._waiting.append((kind, text))

    def take(self, step: int) -> list[Trigger]:
        """The requests so far, as triggers of this step."""
        waiting, self._waiting = self._waiting, []
        return [Trigger(kind, step, text=text) for kind, text in waiting]

    def _received(self, number: int, frame: FrameType | None) -> None:
        self.add("signal", "SIGUSR2")
