"""Where the training of one rank is, whether it may run, and how far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sonde.core.graph import OpNode
from sonde.core.threads.thread_event import ThreadEvent
from sonde.wire.rank import ControlMessage
from sonde.wire.shapes import PauseReason, State

_FREELY: Final = ControlMessage(0, "continue")
_MOST_STEPS: Final = 30
"""How long to run to an op that only steps of another kind run, such as those of a GAN's generator.
"""

_RECORDED_STEPS: Final = 8
"""Of many steps that are run by one command, the last ones are recorded."""


class RankState:
    """The step and the state of one rank; only its own methods change them. ``step`` runs, or is
    about to.

    Used from the training thread, except ``interrupt``: the link's thread calls it when the server
    sent a message. The Event inside is the only thing that the link's thread changes. That thread
    may read ``state`` while the training thread changes it; at worst the training looks for
    messages once without need, or at the step's end instead of at the next op.
    """

    def __init__(self, step: int) -> None:
        self.step = step
        self.state: State = "waiting"
        self._interrupted = ThreadEvent()

    @property
    def has_begun(self) -> bool:
        """Whether the first op ran, or is about to."""
        return self.state != "waiting"

    def run(self) -> None:
        """Enter the first step, or leave a pause."""
        self.state = "running"

    def pause(self) -> None:
        self.state = "paused"
        self._interrupted.clear()

    def begin_at(self, step: int) -> None:
        """Number the first step, which has not begun, ``step``."""
        self.step = step

    def end_step(self) -> None:
        self.step += 1

    def interrupt(self) -> bool:
        """Ask the training to read its messages at the next op; False if it does not run."""
        if self.state != "running":
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


class PauseControl:
    """Decides where the training pauses, by the last command of the user. Used from the training
    thread only; only its own methods change its fields.

    ``generation`` is the number of the last command that was executed; ``is_pause_due``: the user
    asked for a pause, wherever that is; ``missed``: the op or scope that the last command was to
    run to, and a whole step ran without it.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.is_paused = False
        self.is_pause_due = False
        self._is_end_due = False
        self._command = _FREELY
        self._steps_left = 0
        self._whole_steps = 0
        self.missed = ""

    def execute(self, message: ControlMessage) -> None:
        self.generation = message.generation
        if message.command == "pause":
            self.is_pause_due = not self.is_paused
            return
        self.run_freely()
        if message.command == "terminate":
            self._is_end_due = True
        else:
            self._command = message
            self._steps_left = message.steps
            self._whole_steps = 0

    def run_freely(self) -> None:
        """Continue, with nothing to stop at."""
        self.is_paused = self.is_pause_due = False
        self._command = _FREELY

    def pause(self) -> None:
        """The training is paused from now on; the last command is completed."""
        self.run_freely()
        self.is_paused = True

    def end(self) -> None:
        """End the training at the next occasion."""
        self._is_end_due = True

    def take_end(self) -> bool:
        """Whether the training is to be ended now; True once for each request."""
        is_due, self._is_end_due = self._is_end_due, False
        return is_due

    @property
    def needs_ops(self) -> bool:
        """Whether the place to stop at can be found only by observing ops."""
        return self._command.command in ("next", "to")

    @property
    def is_stepping(self) -> bool:
        """Whether the training stops in a few steps at the latest, for the user to look at them."""
        is_near = self._command.command == "step" and self._steps_left <= _RECORDED_STEPS
        return is_near or self.needs_ops

    def wants_op(self, node: OpNode) -> bool:
        """Whether the training may have to stop at ``node``."""
        if node.kind != "op":
            return False
        return self.is_pause_due or self._is_end_due or self._is_target(node)

    def reason_at_op(self, node: OpNode) -> PauseReason | None:
        """Why to pause after ``node``, or None."""
        if node.kind != "op":
            return None
        if self.is_pause_due:
            return "pause"
        return "op" if self._is_target(node) else None

    def _is_target(self, node: OpNode) -> bool:
        """Whether to run to ``node``: any op is the next one; an op by its name, or by a scope that
        contains it, whose path ends with ``/``."""
        if self._command.command != "to":
            return self._command.command == "next"
        until = self._command.op
        return node.name.startswith(until) if until.endswith("/") else node.name == until

    def begin_step(self) -> None:
        """A step begins: the command applies to the whole of it."""
        self._whole_steps += 1

    def reason_at_step_end(
        self, may_run_later: Callable[[str], bool] = lambda op: False
    ) -> PauseReason | None:
        """Why to pause at the end of this step, or None. Counts the steps of a "step" command.

        The op of a "to" command may have run before the command came. But if it does not run in a
        whole step either, the training pauses, unless ``may_run_later`` says that steps of another
        kind run it; then after ``_MOST_STEPS``.
        """
        if self.is_pause_due:
            return "pause"
        self._steps_left -= 1
        command = self._command
        if command.command == "step":
            return "step" if self._steps_left <= 0 else None
        if command.command != "to" or not self._whole_steps:
            return None
        if self._whole_steps < _MOST_STEPS and may_run_later(command.op):
            return None
        self.missed = command.op
        return "missed"
