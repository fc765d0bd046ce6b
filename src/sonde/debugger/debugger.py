"""The debugger inside a training process: stops it, shows it, lets it go on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from sonde.core.graph import Graph, OpNode
from sonde.core.orderly_end import end_in_order
from sonde.core.sink import OpCall
from sonde.debugger.desk import Desk
from sonde.debugger.learning import Learning
from sonde.debugger.pace import Pace
from sonde.debugger.settings import DebuggerOptions
from sonde.debugger.terminated import Terminated
from sonde.debugger.trainee import Held, Trainee
from sonde.wire.numbers import to_wire
from sonde.wire.rank import Goodbye
from sonde.wire.shapes import LossPoint, Metadata, PauseReason

_SAID: Final = ("start", "hit", "breakpoint")
"""Pauses that nobody at the page has just asked for are said at the terminal."""
_PLAN_EVERY: Final = 50
_MOST_STEPS_TO_END: Final = 8
"""Steps in which a loop that was asked to end must have ended."""
_ENDED: Final = "the training was ended from the debugger"


class Debugger:
    """One rank. All methods are called from the training thread.

    Blocking in one of them is what a pause is. They raise nothing but Terminated, when the person
    at the page ends the training.
    """

    def __init__(
        self,
        options: DebuggerOptions,
        metadata: Metadata,
        trainee: Trainee,
        *,
        name: str,
        report: Callable[[str], None],
        initial_step: int = 0,
    ) -> None:
        self._trainee = trainee
        self._report = report
        self._who = f"rank {metadata.rank} " if metadata.world_size > 1 else ""
        self._first_step = initial_step
        desk = self._desk = Desk(
            options, metadata, trainee, name=name, report=report, step=initial_step
        )
        self.control, self.talk = desk.control, desk.talk
        self.watching, self.graphs = desk.watching, desk.graphs
        self.former, self.keeping, self.library = desk.former, desk.keeping, desk.library
        # Parameters that were looked at before anything changed them.
        self._met: set[str] = set()
        self._met_of: Sequence[Held] = ()
        self._stopped_at = (-1, -1)
        self._pace = Pace(trainee.own_seconds)
        self._learning = Learning(initial_step)
        self._is_step_over = False
        self._asked_at: int | None = None  # the step in which a loop was asked to end

    @property
    def step(self) -> int:
        """The one that runs, or is about to."""
        return self._desk.step

    # ------------------------------------------------------------------- life

    def start(self) -> None:
        """Connect, or say that nobody is there."""
        self.talk.open()
        self._desk.read_news()
        self._desk.tell("the program has begun")

    def close(self, exit_code: int, error: str) -> None:
        """The program ends."""
        self.watching.end_step()
        self._desk.send_hits()
        self.talk.close(Goodbye(exit_code, error))

    def hand_over(self) -> None:
        """Others will train, in processes of their own: this one says no more."""
        self.talk.close()

    # ------------------------------------------------------ what is to be seen

    def wants_step(self, step: int) -> bool:
        """Whether the ops of ``step`` are to be observed."""
        return (
            self._learning.wants(step)
            or self.control.needs_ops
            or self.watching.needs_ops
            or self.watching.needs_overflow
            or self.keeping.needs_ops
        )

    def wants_op(self, node: OpNode) -> bool:
        """Whether ``op_ran`` is to be called for ``node``."""
        if not self._desk.has_begun:
            self._begin()
        return self.watching.wants_op(node) or self.must_see(node)

    def must_see(self, node: OpNode) -> bool:
        """Whether ``op_ran`` is to be called for ``node``, whatever its values are."""
        return (
            self._desk.is_interrupted or self.control.wants_op(node) or self.keeping.wants_op(node)
        )

    # ---------------------------------------------------------------- occasions

    def _begin(self) -> None:
        """The first op is about to run."""
        self._desk.read_news()
        self._desk.has_begun = True
        self._desk.state = "running"
        self._end_if_asked()
        if self._desk.pauses_at_start and self.talk.is_connected:
            self._pause("start", "before the first step")
        self._judge_initial()
        self._leave_step_end()
        self._pace.begin()
        self._desk.tell()

    def _judge_initial(self) -> None:
        """Look at weights before anything has changed them, as soon as they are known: networks
        become known when they run."""
        unchanged = self._trainee.unchanged_yet()
        if unchanged is self._met_of:
            return
        self._met_of = unchanged
        fresh = [each for each in unchanged if each.name not in self._met]
        if not fresh:
            return
        names = {each.name for each in fresh}
        self._met |= names
        self.watching.plan()
        with self._trainee.unobserved():
            stop = self.watching.initial(names, self.step)
        if stop is not None:
            self._pause("hit", stop)
        wanted = names.intersection(self.watching.needing_former_values())
        if wanted:
            with self._trainee.unobserved():
                self.former.add([each for each in fresh if each.name in wanted], self.step)
                self.keeping.reserve(self.former.used_bytes)

    def begin_step(self) -> None:
        """The ops of a step begin to be observed."""
        self.watching.begin_step()

    def op_spoiled(self, call: OpCall) -> None:
        """An op ran that may have NaN or Inf."""
        with self._trainee.unobserved():
            stop = self.watching.overflow(call)
        if stop is not None:
            self._stop_at(call, "hit", stop)

    def op_ran(self, call: OpCall) -> None:
        """An op ran that was wanted."""
        if self.talk.has_news:
            with self.library.inside_step(call):
                self._desk.read_news()
        with self._trainee.unobserved():
            stop = self.watching.op(call)
            if self.keeping.wants_op(call.node):
                self.keeping.keep(call)
        reason = self.control.reason_at_op(call.node)
        if (call.step, call.order) == self._stopped_at:
            pass  # It overflowed, and somebody has said since how to go on.
        elif stop is not None:
            self._stop_at(call, "hit", stop)
        elif reason is not None:
            self._stop_at(call, reason, "")
        self._end_if_asked(call)

    def passes_by(self) -> None:
        """The training is between two ops, its backward pass or an update before it: what the
        person wants need not wait for the step's end, where no op is an occasion."""
        if not self._desk.is_interrupted or self._trainee.is_observed():
            return
        with self.library.inside_step(None):
            self._desk.read_news()
            if self.control.is_pause_due:
                self._pause("pause", "")
        self._end_if_asked()

    def others_failed(self) -> None:
        """What several ranks do together failed: if they are being ended, so is this one."""
        if not self.talk.is_connected:
            return
        self.talk.wait_a_little()
        self._desk.read_news()
        self._end_if_asked()
        if self._asked_at is not None:
            raise Terminated(_ENDED)

    def before_update(self) -> None:
        """An optimizer is about to change weights."""
        self.passes_by()
        if self._desk.has_begun:
            self._judge_initial()

    def gradients_ready(self, weights: Iterable[str]) -> None:
        """An optimizer is about to use the gradients of these weights."""
        if not self.watching.needs_gradients:
            return
        with self._trainee.unobserved():
            stop = self.watching.gradients(weights, self.step)
        if stop is not None:
            with self.library.inside_step(None):
                self._pause("hit", stop)

    def graph_learned(self, graph: Graph) -> None:
        for part in self.graphs.learn(graph, self._trainee.held()):
            self.talk.send(part)
        self.watching.plan()

    def step_passed(self, loss: float | None, optimizer: str = "") -> None:
        """A step is over, that of ``optimizer`` if there is one."""
        if not self._desk.has_begun:
            self._begin()
        if self._asked_at is not None and self.step - self._asked_at >= _MOST_STEPS_TO_END:
            self.control.is_ending = True
        self._is_step_over = True
        seconds, bare_seconds = self._pace.step_over()
        observed = self._trainee.is_observed()
        told = None if loss is None else to_wire(loss)
        point = LossPoint(self.step, told, seconds, bare_seconds, observed, optimizer)
        self.graphs.current = self._learning.step_over(
            self.step, optimizer, self.graphs.current, is_observed=observed
        )
        self._desk.step += 1
        self.library.step = self.step
        if self.talk.has_news:  # Questions are about the weights as they are now.
            self._desk.read_news()
        self.talk.tell_step(point, self.graphs.current)
        stop = self._judge_weights()
        self.watching.end_step()
        self._desk.send_hits()
        reason = self.control.reason_at_step_end()
        if stop is not None:
            self._pause("hit", stop)
        elif reason is not None:
            self._pause(reason, "")
        else:
            self._desk.tell(soon=True)
        self._end_if_asked()
        self._leave_step_end()
        self._is_step_over = False
        self._pace.next_step()

    def breakpoint(self, place: str) -> None:
        """The program asks to stop."""
        if self.talk.is_connected:
            self._desk.has_begun = True
            self._desk.state = "running"
            self._pause("breakpoint", f"sonde.breakpoint() at {place}")
            self._end_if_asked()

    def _judge_weights(self) -> str | None:
        watching = self.watching
        if not watching.specs:
            return None
        if (self.step - self._first_step) % _PLAN_EVERY == 0:
            watching.plan()
        if not watching.needs_parameters:
            return None
        with self._trainee.unobserved():
            return watching.weights(self.step)

    def _leave_step_end(self) -> None:
        """What the next step will be compared with is copied when the pause is over."""
        wanted = {*self.watching.needing_former_values(), *self.library.opened}
        self._desk.is_interrupted = False
        if not wanted and not self.former.used_bytes and not self.keeping.keeps_parameters:
            return
        with self._trainee.unobserved():
            held = self._trainee.held()
            self.former.renew([each for each in held if each.name in wanted], self.step)
            self.keeping.reserve(self.former.used_bytes)
            self.keeping.keep_parameters(held, self.step)

    # ------------------------------------------------------------------ pausing

    def _stop_at(self, call: OpCall, reason: PauseReason, message: str) -> None:
        """Pause after ``call``; what it made can be looked at later, too."""
        self._stopped_at = (call.step, call.order)
        with self._trainee.unobserved():
            self.keeping.keep(call)
        with self.library.inside_step(call):
            self._pause(reason, message, call)

    def _pause(self, reason: PauseReason, message: str, call: OpCall | None = None) -> None:
        """Stand still until told otherwise; if there is anybody to tell."""
        if self.talk.is_alone or self._asked_at is not None:
            self.control.run_freely()
            return
        with self._pace.standing_still():
            self._stand_still(reason, message, call)
        self._desk.state = "running"
        self._trainee.refresh()
        self._desk.tell(call=call)
        self._end_if_asked(call)

    def _stand_still(self, reason: PauseReason, message: str, call: OpCall | None) -> None:
        """Say why, and do what the person at the page wants, until that is to go on."""
        self.control.pause()
        self._desk.is_interrupted = False
        self._desk.state = "paused"
        self._desk.send_hits()
        if self._trainee.is_observed():
            nodes = self._trainee.nodes_so_far()
            if call is not None and call.node not in nodes:  # A leaf, before its op.
                nodes = (*nodes, call.node)
            for part in self.graphs.learn_draft(nodes, self._trainee.held()):
                self.talk.send(part)
        self._desk.tell(message, reason=reason, call=call)
        if reason in _SAID:
            self._report(f"sonde: {self._who}paused in step {self.step}: {message}")
        try:
            while self.control.is_paused:
                if self.talk.wait():
                    self._desk.read_news()
                else:
                    self.control.run_freely()
        except KeyboardInterrupt as interrupt:
            # As if Ctrl-C had come in the program's own line.
            raise type(interrupt)() from None

    def _end_if_asked(self, call: OpCall | None = None) -> None:
        """Not after ``call`` if that is an op of an optimizer: weights are changed all or not at
        all. When they have been, a loop that can end by itself is let do so."""
        if not self.control.is_ending or (call is not None and call.node.phase == "optimizer"):
            return
        self.control.is_ending = False
        self._trainee.end()
        ended = Terminated(_ENDED)
        if not self._is_step_over or self._asked_at is not None or not end_in_order(ended):
            raise ended
        self._asked_at = self.step
        self._desk.tell("ending: the step is finished, then callbacks are called")
