"""Whether the training may run, and how far, by the last command of the user."""

from __future__ import annotations

from typing import assert_never

from sonde.core.graph import OpNode
from sonde.wire.rank import ControlMessage
from sonde.wire.shapes import PauseReason


class PauseControl:
    """Decides where the training pauses. Used from the training thread only.

    ``generation`` is the number of the last command that was executed.
    """

    def __init__(self) -> None:
        self._generation = 0
        self._is_paused = False
        self._is_end_due = False
        self._is_pause_due = False
        self._steps_left: int | None = None
        self._is_next = False
        self._until: str | None = None

    @property
    def generation(self) -> int:
        return self._generation

    @property
    def is_paused(self) -> bool:
        return self._is_paused

    def execute(self, message: ControlMessage) -> None:
        self._generation = message.generation
        if message.command == "pause":
            self._is_pause_due = not self._is_paused
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
                self._is_end_due = True
            case _:
                assert_never(message.command)

    def run_freely(self) -> None:
        """Continue, with nothing to stop at."""
        self._is_paused = False
        self._is_pause_due = False
        self._steps_left = None
        self._is_next = False
        self._until = None

    def pause(self) -> None:
        """The training is paused from now on; the last command is completed."""
        self.run_freely()
        self._is_paused = True

    def end(self) -> None:
        """End the training at the next occasion."""
        self._is_end_due = True

    def take_end(self) -> bool:
        """Whether the training is to be ended now; True once for each request."""
        is_due, self._is_end_due = self._is_end_due, False
        return is_due

    # ---------------------------------------------------------- where to stop

    @property
    def needs_ops(self) -> bool:
        """Whether the place to stop at can be found only by observing ops."""
        return self._is_next or self._until is not None

    @property
    def is_pause_due(self) -> bool:
        return self._is_pause_due

    @property
    def is_stop_due(self) -> bool:
        """Whether to stop at the very next occasion, whichever that is."""
        return self._is_pause_due or self._is_end_due

    def wants_op(self, node: OpNode) -> bool:
        """Whether the training may have to stop at ``node``."""
        if node.kind != "op":
            return False
        if self._is_next or self.is_stop_due:
            return True
        return self._is_target(node)

    def reason_at_op(self, node: OpNode) -> PauseReason | None:
        """Why to pause after ``node``, or None."""
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
        """Why to pause at the end of this step, or None. Counts the steps of a "step" command."""
        if self._is_pause_due:
            return "pause"
        if self._steps_left is not None:
            self._steps_left -= 1
            if self._steps_left <= 0:
                return "step"
        return None
