"""Pauses the training, executes the server's messages meanwhile, and ends it on request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sonde.core.running_training import end_in_order, step_text
from sonde.core.sink import OpCall
from sonde.debugger import Terminated
from sonde.debugger.connection.controller import RankController
from sonde.debugger.parts import RankParts
from sonde.debugger.steps import StepTimer
from sonde.wire.shapes import HitRef, PauseReason

_PRINTED: Final = ("start", "hit", "breakpoint")
"""Reasons of pauses that are printed at the terminal: no command of the page caused them."""
_MOST_STEPS_TO_END: Final = 8
"""Steps after which a loop that was requested to end, and has not, is ended by an exception."""
_ENDED: Final = "the training was ended from the debugger"


class Pauses:
    """Pauses and ends one training. Used from the training thread, which blocks in ``pause``.

    Terminated is raised when the user ends the training.
    """

    def __init__(
        self,
        parts: RankParts,
        controller: RankController,
        timing: StepTimer,
        *,
        report: Callable[[str], None],
    ) -> None:
        self._parts = parts
        self._controller = controller
        self._timing = timing
        self._report = report
        self._paused_at = (-1, -1)
        self._end_requested_at: int | None = None  # the step of the request

    def was_paused_at(self, call: OpCall) -> bool:
        """Whether the last pause at an op was at ``call``."""
        return (call.step, call.order) == self._paused_at

    def pause_at(self, call: OpCall, reason: PauseReason, why: str | HitRef) -> None:
        """Pause after ``call``; its inputs and outputs are cached, to be shown later, too."""
        self._paused_at = (call.step, call.order)
        with self._parts.trainee.unobserved():
            self._parts.recorder.record(call)
        with self._parts.lookup.inside_step(call):
            self.pause(reason, why, call)

    def pause(
        self,
        reason: PauseReason,
        why: str | HitRef,
        call: OpCall | None = None,
        *,
        is_step_over: bool = False,
    ) -> None:
        """Block until the user lets the training continue; return at once without a server."""
        if self._controller.session.is_given_up or self._end_requested_at is not None:
            self._parts.control.run_freely()
            return
        with self._timing.paused():
            self._block(reason, why, call)
        self._parts.state.run()
        self._parts.trainee.refresh()
        self._controller.report_status(call=call)
        self.end_if_asked(call, is_step_over=is_step_over)

    def _block(self, reason: PauseReason, why: str | HitRef, call: OpCall | None) -> None:
        """Report the pause, then execute messages until one of them ends it."""
        control, state, session = self._parts.control, self._parts.state, self._controller.session
        control.pause()
        state.pause()
        self._controller.report_hits(with_counts=True)
        self._send_graph_so_far(call)
        self._controller.report_statistics()
        self._controller.report_kept()
        hit = why if isinstance(why, HitRef) else None
        message = _hit_message(why) if isinstance(why, HitRef) else why
        self._controller.report_status(message, reason=reason, call=call, hit=hit)
        if reason in _PRINTED:
            when = "" if hit is not None else f" in {step_text(state.step)}"
            self._report(f"sonde: paused{when}: {message}")
        try:
            while control.is_paused:
                if session.wait():
                    self._controller.read_messages()
                else:
                    control.run_freely()
        except KeyboardInterrupt as interrupt:
            # Without this traceback: as if Ctrl-C had come in the program's own line.
            raise type(interrupt)() from None

    def _send_graph_so_far(self, call: OpCall | None) -> None:
        """Send the ops of the running step, if it is observed and its graph is new."""
        trainee = self._parts.trainee
        if not trainee.is_observed():
            return
        nodes = trainee.nodes_so_far()
        if call is not None and call.node not in nodes:  # A leaf is met before its op.
            nodes = (*nodes, call.node)
        for part in self._parts.graphs.learn_draft(nodes, trainee.held()):
            self._controller.session.send(part)

    # ---------------------------------------------------------------- ending

    def end_if_asked(self, call: OpCall | None = None, *, is_step_over: bool = False) -> None:
        """Raise Terminated if the user ended the training.

        Not after ``call`` if that is an op of an optimizer: an update is completed. When the step
        is over, a loop that can end by itself is requested to; without one, Terminated is raised.
        """
        if call is not None and call.node.phase == "optimizer":
            return
        if not self._parts.control.take_end():
            return
        self._parts.trainee.end()
        ended = Terminated(_ENDED)
        if not is_step_over or self._end_requested_at is not None or not end_in_order(ended):
            raise ended
        self._end_requested_at = self._parts.state.step
        self._controller.report_status("ending: the step is finished, then callbacks are called")

    def count_steps_to_end(self) -> None:
        """End a loop that was requested to end and continues."""
        since = self._end_requested_at
        if since is not None and self._parts.state.step - since >= _MOST_STEPS_TO_END:
            self._parts.control.end()

    def raise_if_ending(self) -> None:
        """Raise Terminated if the training is being ended, whether or not its step is over."""
        self.end_if_asked()
        if self._end_requested_at is not None:
            raise Terminated(_ENDED)


def _hit_message(hit: HitRef) -> str:
    """The sentence about a hit, and the watchpoint that was met."""
    if hit.headline is None:
        return f"{hit.name}: {hit.condition} at {hit.op}"
    return f"{hit.headline.text} (watchpoint {hit.name!r})"
