"""The debugger inside a training process: stops it, shows it, lets it go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

from sonde.core.errors import SondeError
from sonde.core.graph import Graph, OpNode
from sonde.core.sink import OpCall
from sonde.debugger.control import Control
from sonde.debugger.conversation import Conversation
from sonde.debugger.former import FormerValues
from sonde.debugger.graphs import GraphBook
from sonde.debugger.keeping import Keeping
from sonde.debugger.library import Library
from sonde.debugger.link import Lost, News, Welcomed
from sonde.debugger.settings import DebuggerOptions
from sonde.debugger.terminated import Terminated
from sonde.debugger.trainee import Trainee
from sonde.debugger.watching import Watching
from sonde.wire.numbers import to_wire
from sonde.wire.rank import (
    PROTOCOL,
    Ask,
    Goodbye,
    Hello,
    Hits,
    Keep,
    SetWatchpoints,
    Status,
)
from sonde.wire.rank import Control as ControlMessage
from sonde.wire.shapes import LossPoint, Metadata, PauseReason, State

LEARNED_STEPS: Final = 2
"""The ops of the first steps are observed, so that there is a graph to show: the first step
differs from those that follow, whose optimizers have their state."""
_SAID: Final = ("start", "hit", "breakpoint")
"""Pauses that nobody at the page has just asked for are said at the terminal."""
_AT_STEP_END: Final = "when the step ends: ops are not observed in this step"
_PLAN_EVERY: Final = 50


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
        self._options = options
        self._metadata = metadata
        self._trainee = trainee
        self._report = report
        self._who = f"rank {metadata.rank} " if metadata.world_size > 1 else ""
        self._first_step = initial_step
        self.step = initial_step
        self.control = Control()
        self.graphs = GraphBook(name)
        self.former = FormerValues(trainee, options.budget_bytes, self._budget_is_full)
        self.watching = Watching(
            metadata.rank, trainee, self.former, self.graphs, self._complain_of_watchpoint
        )
        self.keeping = Keeping(options.budget_bytes)
        self.library = Library(trainee, self.graphs, self.keeping.values, self.former.find)
        self.talk = Conversation(
            options, hello=self._hello, interrupt=self._interrupt, report=report
        )
        self._is_interrupted = False
        self._pauses_at_start = bool(options.pause)
        self._has_begun = False
        self._is_initial_due = True
        self._stopped_at = (-1, -1)
        self._state: State = "waiting"
        self._last_end = time.perf_counter()
        self._stood_still = 0.0

    # ------------------------------------------------------------------- life

    def start(self) -> None:
        """Connect, or say that nobody is there."""
        self.talk.open()
        self._read_news()
        self._tell("the program has begun")

    def close(self, exit_code: int, error: str) -> None:
        """The program ends."""
        self.watching.end_step()
        self._send_hits()
        self.talk.close(Goodbye(exit_code, error))

    def hand_over(self) -> None:
        """Others will train, in processes of their own: this one says no more."""
        self.talk.close()

    # ------------------------------------------------------ what is to be seen

    def wants_step(self, step: int) -> bool:
        """Whether the ops of ``step`` are to be observed."""
        return (
            step < self._first_step + LEARNED_STEPS
            or self.control.needs_ops
            or self.watching.needs_ops
            or self.watching.needs_overflow
            or self.keeping.needs_ops
        )

    def wants_op(self, node: OpNode) -> bool:
        """Whether ``op_ran`` is to be called for ``node``."""
        if not self._has_begun:
            self._begin()
        return (
            self._is_interrupted
            or self.control.wants_op(node)
            or self.watching.wants_op(node)
            or self.keeping.wants_op(node)
        )

    # ---------------------------------------------------------------- occasions

    def _begin(self) -> None:
        """The first op is about to run."""
        self._read_news()
        self._has_begun = True
        self._state = "running"
        self._end_if_asked()
        if self._pauses_at_start and self.talk.is_connected:
            self._pause("start", "before the first step")
        self._judge_initial()
        self._last_end, self._stood_still = time.perf_counter(), 0.0
        self._tell()

    def _judge_initial(self) -> None:
        """Look at the weights before anything has changed them, as soon as they are known."""
        if not self._trainee.held():
            return
        self._is_initial_due = False
        self.watching.plan()
        with self._trainee.unobserved():
            stop = self.watching.initial(self.step)
        if stop is not None:
            self._pause("hit", stop)
        self._leave_step_end()

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
            self._read_news()
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
        self._end_if_asked()

    def before_update(self) -> None:
        """An optimizer is about to change weights."""
        if self._is_initial_due and self._has_begun:
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

    def step_passed(self, loss: float | None) -> None:
        """A step is over."""
        if not self._has_begun:
            self._begin()
        if self.talk.has_news:
            self._read_news()
        now = time.perf_counter()
        seconds, self._stood_still = now - self._last_end - self._stood_still, 0.0
        is_observed = self._trainee.is_observed()
        point = LossPoint(
            self.step, None if loss is None else to_wire(loss), max(seconds, 0.0), is_observed
        )
        self.step += 1
        self.library.step = self.step
        self.talk.tell_step(point, self.graphs.current)
        stop = self._judge_weights()
        self.watching.end_step()
        self._send_hits()
        reason = self.control.reason_at_step_end()
        if stop is not None:
            self._pause("hit", stop)
        elif reason is not None:
            self._pause(reason, "")
        else:
            self._tell(soon=True)
        self._end_if_asked()
        self._leave_step_end()
        self._last_end, self._stood_still = time.perf_counter(), 0.0

    def breakpoint(self, place: str) -> None:
        """The program asks to stop."""
        if self.talk.is_connected:
            self._has_begun = True
            self._state = "running"
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
        self._is_interrupted = False
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
        if self.talk.is_alone:
            self.control.run_freely()
            return
        began = time.perf_counter()
        self.control.pause()
        self._is_interrupted = False
        self._state = "paused"
        self._send_hits()
        if self._trainee.is_observed():
            for part in self.graphs.learn_draft(self._trainee.nodes_so_far(), self._trainee.held()):
                self.talk.send(part)
        self._tell(message, reason=reason, call=call)
        if reason in _SAID:
            self._report(f"sonde: {self._who}paused in step {self.step}: {message}")
        try:
            while self.control.is_paused:
                if self.talk.wait():
                    self._read_news()
                else:
                    self.control.run_freely()
        except KeyboardInterrupt as interrupt:
            # As if Ctrl-C had come in the program's own line.
            raise type(interrupt)() from None
        self._stood_still += time.perf_counter() - began
        self._state = "running"
        self._trainee.refresh()
        self._tell(call=call)
        self._end_if_asked()

    def _end_if_asked(self) -> None:
        if self.control.is_ending:
            self.control.is_ending = False
            raise Terminated("the training was ended from the debugger")

    # ---------------------------------------------------------------- messages

    def _interrupt(self, news: News) -> None:
        """Called in the link's thread: what the person wants is asked for at the next op."""
        if isinstance(news, ControlMessage) and self._state == "running":
            self._is_interrupted = True
            if self._trainee.is_observed():
                self._trainee.refresh()

    def _read_news(self) -> None:
        while (news := self.talk.next_news()) is not None:
            try:
                self._obey(news)
            except SondeError as error:
                self.talk.notice(error.slug, error.message)
        if self._is_interrupted:
            self._is_interrupted = False
            self._trainee.refresh()

    def _obey(self, news: News) -> None:
        match news:
            case ControlMessage():
                self._obey_control(news)
            case SetWatchpoints():
                self.watching.set(news.watchpoints)
                self._trainee.refresh()
            case Keep():
                self.keeping.add(news.ops, news.steps, self._trainee.held())
                self._trainee.refresh()
            case Ask():
                with self._trainee.unobserved():
                    for answer in self.library.answers(news):
                        self.talk.send(answer)
            case Welcomed():
                self._greet(news)
            case Lost():
                self.talk.mourn(news, is_paused=self.control.is_paused)
                if news.for_good and self.control.is_paused:
                    self.control.run_freely()
            case _:
                pass  # Welcome and Refused come but once, and the link takes them.

    def _obey_control(self, message: ControlMessage) -> None:
        self.control.obey(message)
        if not self._has_begun:
            # Said before there was anything to stop: it stands for what is said at the start.
            self._pauses_at_start = message.command == "pause"
        elif self._state == "running" and message.command == "pause":
            here = "at the next op" if self._trainee.is_observed() else _AT_STEP_END
            self._tell(f"pausing {here}")

    def _greet(self, news: Welcomed) -> None:
        if not news.resumes and self._options.pause is None and not self._has_begun:
            self._pauses_at_start = news.welcome.paused
        self.watching.set(news.welcome.watchpoints)
        self._trainee.refresh()
        self.talk.greet(news, self.graphs, self.watching.hits.remembered)

    def _hello(self, resumes: bool) -> Hello:
        return Hello(
            PROTOCOL,
            self._options.token,
            self._options.run,
            self._metadata,
            resumes,
            self.watching.specs if resumes else self._options.watchpoints,
            self.control.generation,
        )

    def _tell(
        self,
        message: str = "",
        *,
        reason: PauseReason | None = None,
        call: OpCall | None = None,
        soon: bool = False,
    ) -> None:
        """Say where the training is."""
        op = None if call is None else call.node.name
        status = Status(
            state=self._state,
            step=self.step,
            graph=self.graphs.here if op is None else self.graphs.graph_with(op),
            op=op,
            order=None if call is None else call.order,
            reason=reason,
            message=message,
            generation=self.control.generation,
        )
        self.talk.tell(status, soon=soon)

    def _send_hits(self) -> None:
        hits = self.watching.hits.take()
        if hits:
            self.talk.send(Hits(tuple(hits)))

    def _budget_is_full(self, text: str) -> None:
        self.talk.notice("debugger-budget", text)

    def _complain_of_watchpoint(self, error: SondeError) -> None:
        self.talk.notice(error.slug, f"a watchpoint is left out: {error.message}")
