"""What the person at the page wants the training to do next."""

from __future__ import annotations

from typing import assert_never

from sonde.core.graph import OpNode
from sonde.wire.rank import Control as ControlMessage
from sonde.wire.shapes import PauseReason


class Control:
    """Whether the training may run, and how far. Used from the training thread only.

    ``generation`` is that of the last message that was obeyed. ``is_ending``: the training is to
    be ended at the next occasion.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.is_paused = False
        self.is_ending = False
        self._is_pause_due = False
        self._steps_left: int | None = None
        self._is_next = False
        self._until: str | None = None

    def obey(self, message: ControlMessage) -> None:
        self.generation = message.generation
        if message.command == "pause":
            self._is_pause_due = not self.is_paused
            return
        self.run_freely()
        match message.command:
            case "continue":
                pass
            case "step":
                self._steps_left = max(message.steps, 1)
            case "next":
                self._is_next = True
            case "to":
                self._until = message.op
            case "terminate":
                self.is_ending = True
            case _:
                assert_never(message.command)

    def run_freely(self) -> None:
        """Go on, with nothing to stop at."""
        self.is_paused = False
        self._is_pause_due = False
        self._steps_left = None
        self._is_next = False
        self._until = None

    def pause(self) -> None:
        """The training stands still from now on; what it was told to run to is over."""
        self.run_freely()
        self.is_paused = True

    # ------------------------------------------------------------ occasions

    @property
    def needs_ops(self) -> bool:
        """Whether the op to stop at can be found only by looking at ops."""
        return self._is_next or self._until is not None

    @property
    def is_pause_due(self) -> bool:
        return self._is_pause_due

    @property
    def is_stop_due(self) -> bool:
        """Whether the very next occasion will do, whichever it is."""
        return self._is_pause_due or self.is_ending

    def wants_op(self, node: OpNode) -> bool:
        """Whether it must be asked at ``node`` if to stop there."""
        if node.kind != "op":
            return False
        if self._is_next or self.is_stop_due:
            return True
        return self._is_target(node)

    def reason_at_op(self, node: OpNode) -> PauseReason | None:
        """Why to stop after ``node``, or None."""
        if node.kind != "op":
            return None
        if self._is_pause_due:
            return "pause"
        return "op" if self._is_next or self._is_target(node) else None

    def _is_target(self, node: OpNode) -> bool:
        """Whether ``node`` is the op to run to, or in the scope, whose path ends with ``/``."""
        until = self._until
        if until is None:
            return False
        return node.name.startswith(until) if until.endswith("/") else node.name == until

    def reason_at_step_end(self) -> PauseReason | None:
        """A step is over: why to stop here, or None. Counts the steps that were asked for."""
        if self._is_pause_due:
            return "pause"
        if self._steps_left is not None:
            self._steps_left -= 1
            if self._steps_left <= 0:
                return "step"
        return None
