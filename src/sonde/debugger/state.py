"""Where the training of one rank is: its step, and whether it waits, runs or is paused."""

from __future__ import annotations

import threading

from sonde.wire.shapes import State


class RankState:
    """The step and the state of one rank.

    Used from the training thread, except ``interrupt``: the link's thread calls it when the server
    sent a message. The Event inside is the only thing that the link's thread changes. That thread
    may read ``state`` while the training thread changes it; at worst the training looks for
    messages once without need, or at the step's end instead of at the next op.
    """

    def __init__(self, step: int) -> None:
        self._step = step
        self._state: State = "waiting"
        self._interrupted = threading.Event()

    @property
    def step(self) -> int:
        """The step that runs, or is about to."""
        return self._step

    @property
    def state(self) -> State:
        return self._state

    @property
    def has_begun(self) -> bool:
        """Whether the first op ran, or is about to."""
        return self._state != "waiting"

    def run(self) -> None:
        """Enter the first step, or leave a pause."""
        self._state = "running"

    def pause(self) -> None:
        self._state = "paused"
        self._interrupted.clear()

    def end_step(self) -> None:
        self._step += 1

    # ------------------------------------------------------------- interrupts

    def interrupt(self) -> bool:
        """Ask the training to read its messages at the next op; False if it does not run."""
        if self._state != "running":
            return False
        self._interrupted.set()
        return True

    @property
    def is_interrupted(self) -> bool:
        return self._interrupted.is_set()

    def clear_interrupt(self) -> bool:
        """Forget the interrupt; whether there was one."""
        was_set = self._interrupted.is_set()
        self._interrupted.clear()
        return was_set
