"""The debugger inside a training process: stops it, shows it, lets it go on."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from math import inf, isinf
from typing import Final

from sonde.core.errors import SondeError
from sonde.core.graph import Graph, OpNode
from sonde.core.sink import OpCall
from sonde.debugger.control import Control
from sonde.debugger.former import FormerValues
from sonde.debugger.graphs import GraphBook
from sonde.debugger.keeping import Keeping
from sonde.debugger.library import Library
from sonde.debugger.link import Link, Lost, News, Welcomed
from sonde.debugger.settings import DebuggerOptions
from sonde.debugger.terminated import Terminated
from sonde.debugger.trainee import Trainee
from sonde.debugger.watching import Watching
from sonde.wire.numbers import to_wire
from sonde.wire.rank import (
    PROTOCOL,
    Answer,
    Ask,
    Goodbye,
    Hello,
    Hits,
    Keep,
    Notice,
    SetWatchpoints,
    Status,
    StepDone,
)
from sonde.wire.rank import Control as ControlMessage
from sonde.wire.shapes import LossPoint, Metadata, PauseReason, State

LEARNED_STEPS: Final = 2
"""The ops of the first steps are observed, so that there is a graph to show: the first step
differs from those that follow, whose optimizers have their state."""
_SAID: Final = ("start", "hit", "breakpoint")
"""Pauses that nobody at the page has just asked for are said at the terminal."""
_MOST_POINTS: Final = 100_000
_PLAN_EVERY: Final = 50


class Debugger:
    """One rank. All methods are called from the training thread, but ``deliver``.

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
        self._inbox: deque[News] = deque()
        self._news = threading.Condition()
        self._link = Link(options.host, options.port, hello=self._hello, deliver=self.deliver)
        self._is_interrupted = False
        self._pauses_at_start = bool(options.pause)
        self._has_begun = False
        self._pending_stop: str | None = None
        self._points: deque[LossPoint] = deque(maxlen=_MOST_POINTS)
        self._state: State = "waiting"
        self._status = self._make_status(None, "", None)
        self._last_end = time.perf_counter()
        self._stood_still = 0.0
        self._is_absence_said = False
        self._lost_since: float | None = -inf  # nobody was there yet

    # ------------------------------------------------------------------- life

    def start(self) -> None:
        """Connect, or say that nobody is there."""
        if not self._link.open(self._options.wait_seconds):
            self._is_absence_said = True
            self._report(
                f"sonde: no debugger server answers at {self._options.address}; training goes on "
                "without it, and connects when there is one: start one with 'sonde serve' "
                "[debugger-absent]"
            )
        self._read_news()
        self._tell(self._make_status(None, "the program has begun", None))

    def close(self, exit_code: int, error: str) -> None:
        """The program ends."""
        self.watching.end_step()
        self._send_hits()
        for message in self._inbox:
            if isinstance(message, Ask):
                self._link.send(
                    Answer(message.request, error="the training has ended", slug="tensor-not-kept")
                )
        self._link.close(Goodbye(exit_code, error))

    def hand_over(self) -> None:
        """Others will train, in processes of their own: this one says no more."""
        self._link.close()

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
        self._has_begun = True
        self._read_news()
        self._state = "running"
        if self._pauses_at_start and self._link.is_connected:
            self._pause("start", "before the first step")
        self.watching.plan()
        with self._trainee.unobserved():
            stop = self.watching.initial(self.step)
        if stop is not None:
            self._pause("hit", stop)
        self._leave_step_end()
        self._last_end, self._stood_still = time.perf_counter(), 0.0
        self._tell(self._make_status(None, "", None))

    def begin_step(self) -> None:
        """The ops of a step begin to be observed."""
        self.watching.begin_step()

    def op_spoiled(self, call: OpCall) -> None:
        """An op ran that may have NaN or Inf."""
        with self._trainee.unobserved():
            stop = self.watching.overflow(call)
        if self.wants_op(call.node):
            self._pending_stop = stop  # ``op_ran`` comes for it, too
        elif stop is not None:
            self._stop_at(call, "hit", stop)

    def op_ran(self, call: OpCall) -> None:
        """An op ran that was wanted."""
        if self._inbox:
            self._read_news()
        with self._trainee.unobserved():
            stop = self.watching.op(call)
            reason = self.control.reason_at_op(call.node)
            if reason is not None or self.keeping.wants_op(call.node):
                self.keeping.keep(call)
        stop, self._pending_stop = self._pending_stop or stop, None
        if stop is not None:
            self._stop_at(call, "hit", stop)
        elif reason is not None:
            self._stop_at(call, reason, "")
        self._end_if_asked()

    def gradients_ready(self, weights: Iterable[str]) -> None:
        """An optimizer is about to use the gradients of these weights."""
        if not self.watching.needs_gradients:
            return
        with self._trainee.unobserved():
            stop = self.watching.gradients(weights, self.step)
        if stop is not None:
            self._pause("hit", stop)

    def graph_learned(self, graph: Graph) -> None:
        for part in self.graphs.learn(graph, self._trainee.held()):
            self._link.send(part)
        self.watching.plan()

    def step_passed(self, loss: float | None) -> None:
        """A step is over."""
        if not self._has_begun:
            self._begin()
        if self._inbox:
            self._read_news()
        now = time.perf_counter()
        seconds, self._stood_still = now - self._last_end - self._stood_still, 0.0
        is_observed = self._trainee.is_observed()
        point = LossPoint(
            self.step, None if loss is None else to_wire(loss), max(seconds, 0.0), is_observed
        )
        self._points.append(point)
        self.step += 1
        self.library.step = self.step
        self._link.send(StepDone(point, self.graphs.current), soon=True)
        stop = self._judge_weights()
        self.watching.end_step()
        self._send_hits()
        reason = self.control.reason_at_step_end()
        if stop is not None:
            self._pause("hit", stop)
        elif reason is not None:
            self._pause(reason, "")
        else:
            self._tell(self._make_status(None, "", None), soon=True)
        self._end_if_asked()
        self._leave_step_end()
        self._last_end, self._stood_still = time.perf_counter(), 0.0

    def breakpoint(self, place: str) -> None:
        """The program asks to stop."""
        if self._link.is_connected:
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
        self.library.call = call
        try:
            self._pause(reason, message, call)
        finally:
            self.library.call = None

    def _pause(self, reason: PauseReason, message: str, call: OpCall | None = None) -> None:
        """Stand still until told otherwise; if there is anybody to tell."""
        if self._is_alone():
            self.control.run_freely()
            return
        began = time.perf_counter()
        self.control.pause()
        self._is_interrupted = False
        self._state = "paused"
        self._send_hits()
        if self._trainee.is_observed():
            for part in self.graphs.learn_draft(self._trainee.nodes_so_far(), self._trainee.held()):
                self._link.send(part)
        self._tell(self._make_status(reason, message, call))
        if reason in _SAID:
            self._report(f"sonde: paused in step {self.step}: {message}")
        try:
            while self.control.is_paused:
                self._wait()
                self._read_news()
        except KeyboardInterrupt as interrupt:
            # As if Ctrl-C had come in the program's own line.
            raise type(interrupt)() from None
        self._stood_still += time.perf_counter() - began
        self._state = "running"
        self._trainee.refresh()
        self._tell(self._make_status(None, "", call))
        self._end_if_asked()

    def _is_alone(self) -> bool:
        """Whether the server has been away for so long that nobody waits for it any more."""
        since = self._lost_since
        return since is not None and time.monotonic() - since > self._options.lost_seconds

    def _wait(self) -> None:
        """Until there are news; goes on training when the server is away for too long."""
        timeout = None
        if self._lost_since is not None and not isinf(self._options.lost_seconds):
            timeout = self._lost_since + self._options.lost_seconds - time.monotonic()
            if timeout <= 0:
                self.control.run_freely()
                self._report("sonde: no debugger server to wait for; training goes on")
                return
        with self._news:
            if not self._inbox:
                self._news.wait(timeout)

    def _end_if_asked(self) -> None:
        if self.control.is_ending:
            self.control.is_ending = False
            raise Terminated("the training was ended from the debugger")

    # ---------------------------------------------------------------- messages

    def deliver(self, news: News) -> None:
        """Called by the link, in its thread."""
        self._inbox.append(news)
        if isinstance(news, ControlMessage) and self._state == "running":
            self._is_interrupted = True
            if self._trainee.is_observed():
                self._trainee.refresh()
        with self._news:
            self._news.notify()

    def _read_news(self) -> None:
        while self._inbox:
            self._obey(self._inbox.popleft())
        if self._is_interrupted:
            self._is_interrupted = False
            self._trainee.refresh()

    def _obey(self, news: News) -> None:
        match news:
            case ControlMessage():
                self.control.obey(news)
                if self._state == "running" and news.command == "pause":
                    self._tell(self._make_status(None, self._pause_promise(), None))
            case SetWatchpoints():
                self._set_watchpoints(news)
            case Keep():
                self.keeping.add(news.ops, news.steps, self._trainee.held())
                self._trainee.refresh()
            case Ask():
                with self._trainee.unobserved():
                    for answer in self.library.answers(news):
                        self._link.send(answer)
            case Welcomed():
                self._greet(news)
            case Lost():
                self._mourn(news)
            case _:
                pass  # Welcome and Refused come but once, and the link takes them.

    def _set_watchpoints(self, news: SetWatchpoints) -> None:
        self.watching.set(news.watchpoints)
        self._trainee.refresh()

    def _pause_promise(self) -> str:
        if self._trainee.is_observed():
            return "pausing at the next op"
        return "pausing when the step ends: ops are not observed in this step"

    def _greet(self, news: Welcomed) -> None:
        if news.resumes or self._is_absence_said:
            self._report(f"sonde: connected to the debugger server at {self._options.address}")
        self._lost_since = None
        if not news.resumes and self._options.pause is None and not self._has_begun:
            self._pauses_at_start = news.welcome.paused
        self.watching.set(news.welcome.watchpoints)
        self._trainee.refresh()
        if not news.welcome.knows:
            for part in self.graphs.all_parts():
                self._link.send(part)
            for point in self._points:
                self._link.send(StepDone(point, self.graphs.current), soon=True)
            if self.watching.hits.remembered:
                self._link.send(Hits(tuple(self.watching.hits.remembered)))
        self._tell(self._status)

    def _mourn(self, news: Lost) -> None:
        if news.for_good:
            self._lost_since = -inf
            self._report(f"sonde: {news.why}; training goes on without the debugger")
            if self.control.is_paused:
                self.control.run_freely()
            return
        patience = self._options.lost_seconds
        self._lost_since = time.monotonic()
        if self.control.is_paused:
            stays = "until it is back" if isinf(patience) else f"for {patience:g} s, then goes on"
            self._report(
                f"sonde: lost the debugger server ({news.why}); training stays paused {stays} "
                "[debugger-lost]"
            )
        else:
            self._report(
                f"sonde: lost the debugger server ({news.why}); training goes on [debugger-lost]"
            )

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

    def _make_status(self, reason: PauseReason | None, message: str, call: OpCall | None) -> Status:
        graphs = self.graphs
        op = None if call is None else call.node.name
        return Status(
            state=self._state,
            step=self.step,
            graph=graphs.here if op is None else graphs.graph_with(op),
            op=op,
            order=None if call is None else call.order,
            reason=reason,
            message=message,
            generation=self.control.generation,
        )

    def _tell(self, status: Status, *, soon: bool = False) -> None:
        self._status = status
        self._link.send(status, soon=soon)

    def _send_hits(self) -> None:
        hits = self.watching.hits.take()
        if hits:
            self._link.send(Hits(tuple(hits)))

    def _budget_is_full(self, text: str) -> None:
        self._link.send(Notice("debugger-budget", text))

    def _complain_of_watchpoint(self, error: SondeError) -> None:
        self._link.send(Notice(error.slug, f"a watchpoint is left out: {error.message}"))
