"""The rank's session with the server, which outlasts single connections."""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from math import inf, isinf
from typing import Final

from sonde.core.text.problem_line import ProblemLine
from sonde.core.threads.thread_event import ThreadEvent
from sonde.debugger.connection.link import Connected, Disconnected, Link, ServerEvent
from sonde.debugger.launch.server_registry import access_to
from sonde.debugger.settings import DebuggerOptions
from sonde.debugger.trainee import ForwardTrace
from sonde.debugger.values.graphs import GraphRegistry
from sonde.wire import rank as messages
from sonde.wire.shapes import DiagnosisView, Hit, LossPoint

SessionEvent = ServerEvent | ForwardTrace
_log = logging.getLogger("sonde.debugger")
_MOST_POINTS: Final = 100_000
_HITS_IN_MESSAGE: Final = 500
_MOST_NORMS: Final = 1000
_FEWEST_NORMS: Final = 10
_MOST_NORM_BYTES: Final = 32 << 20
"""Of the norms that are kept for a server that connects later."""
_NEVER: Final = -inf
_OPEN: Final[list[ServerSession]] = []
os.register_at_fork(after_in_child=_OPEN.clear)


def open_session() -> ServerSession | None:
    """The session of this process with a debugger server, if it has one. For any thread."""
    return _OPEN[-1] if _OPEN else None


class Inbox:
    """Messages that were not read yet, of the server and of the thread that traces the network.
    These threads call ``put``; all other methods are used from the training thread."""

    def __init__(self) -> None:
        self._events: deque[SessionEvent] = deque()
        self._arrival = ThreadEvent()

    def __bool__(self) -> bool:
        return bool(self._events)

    def put(self, event: SessionEvent) -> None:
        self._events.append(event)
        self._arrival.set()

    def take(self) -> SessionEvent | None:
        """The oldest message; None if there is none."""
        return self._events.popleft() if self._events else None

    def wait(self, seconds: float | None) -> None:
        """Wait until there is a message, at most ``seconds``."""
        self._arrival.clear()
        if not self._events:
            self._arrival.wait(seconds)


class ServerSession:
    """Receives the server's messages and keeps what must be sent again after a reconnect.

    ``interrupt`` is called in the link's thread with every message that was put into ``inbox``; all
    methods are used from the training thread. ``report`` prints a line at the terminal.
    """

    def __init__(
        self,
        options: DebuggerOptions,
        *,
        hello: Callable[[bool], messages.Hello],
        interrupt: Callable[[ServerEvent], None],
        report: Callable[[str], None],
    ) -> None:
        self._options = options
        self._interrupt = interrupt
        self._report = report
        self.inbox = Inbox()
        self._link = Link(
            options.host,
            options.port,
            access=partial(access_to, options.host, options.port, options.token, options.trust),
            hello=hello,
            deliver=self._deliver,
        )
        self._steps: deque[messages.StepDone] = deque(maxlen=_MOST_POINTS)
        self._names = messages.ParameterNames(())
        self._norms: deque[messages.ParameterNorms] = deque()
        self._status: messages.Status | None = None
        self._diagnosis: messages.Diagnosed | None = None
        self._is_absence_reported = False
        self._absent_since: float | None = _NEVER  # None while the server is connected
        self._about_ranks: Callable[[ServerEvent], None] = lambda event: None

    def open(self) -> None:
        """Connect, or report that there is no server. A refusal arrives as a Disconnected."""
        _OPEN.append(self)
        _log.info(
            "connecting to the debugger server at %s, for at most %g s",
            self._options.address,
            self._options.wait_seconds,
        )
        if not self._link.open(self._options.wait_seconds) and not self._link.is_given_up:
            self._is_absence_reported = True
            text = (
                f"sonde: no debugger server at {self._options.address}; the training runs without "
                "it and connects as soon as there is one: start one with 'sonde serve'"
            )
            self._report(ProblemLine(text, slug="debugger-absent"))

    def close(self, *last: messages.Goodbye) -> None:
        """Answer the questions that are left, send ``last``, and disconnect."""
        if self in _OPEN:
            _OPEN.remove(self)
        while (event := self.inbox.take()) is not None:
            if isinstance(event, messages.Ask):
                error = "the training has ended"
                self.send(messages.Answer(event.request, error=error, slug="tensor-not-kept"))
        self._link.close(*last)

    # -------------------------------------------------------------- receiving

    @property
    def is_connected(self) -> bool:
        return self._link.is_connected

    def _deliver(self, event: ServerEvent) -> None:
        """Take a message over from the link, in the link's thread."""
        _log.debug("from the debugger server: %s", type(event).__name__)
        if isinstance(event, messages.JobFindings | messages.AskStack):
            self._about_ranks(event)
            return
        self.inbox.put(event)
        self._interrupt(event)

    def share(self, deliver: Callable[[ServerEvent], None]) -> Link:
        """The link, for reports about ranks; ``deliver`` gets the server's messages about them, in
        the link's thread. Called in any thread; the session still owns the link."""
        self._about_ranks = deliver
        return self._link

    def tell(self, trace: ForwardTrace) -> None:
        """Let the training thread show ``trace``; called in any thread."""
        self.inbox.put(trace)

    def wait(self) -> bool:
        """Wait for a message; False if the server has been absent for ``lost_seconds``."""
        limit = None
        if self._absent_since is not None and not isinf(self._options.lost_seconds):
            limit = self._absent_since + self._options.lost_seconds - time.monotonic()
            if limit <= 0:
                self._report("sonde: the debugger server did not return; the training continues")
                return False
        self.inbox.wait(limit)
        return True

    @property
    def is_given_up(self) -> bool:
        """Whether there was never a server, or it has been absent for ``lost_seconds``."""
        since = self._absent_since
        if since is None or since == _NEVER:
            return since is not None
        return time.monotonic() - since > self._options.lost_seconds

    # ---------------------------------------------------------------- sending

    def send(self, message: messages.FromRank, *, soon: bool = False) -> None:
        self._link.send(message, soon=soon)

    def report_status(self, status: messages.Status, *, soon: bool = False) -> None:
        self._status = status
        self._link.send(status, soon=soon)

    def report_step(
        self, point: LossPoint, graph: int | None, *, is_measurement: bool = False
    ) -> None:
        self._steps.append(done := messages.StepDone(point, graph, is_measurement))
        self._link.send(done, soon=True)

    def report_norms(self, names: tuple[str, ...], norms: messages.ParameterNorms) -> None:
        """Send the norms of the weights ``names``, and the names if there are new ones."""
        if names != self._names.names:
            self._names = messages.ParameterNames(names)
            self._link.send(self._names, soon=True)
            each = max(3 * 4 * len(names), 1)
            most = min(max(_MOST_NORM_BYTES // each, _FEWEST_NORMS), _MOST_NORMS)
            self._norms = deque(self._norms, maxlen=most)
        self._norms.append(norms)
        self._link.send(norms, soon=True)

    def report_hits(self, hits: Sequence[Hit]) -> None:
        """Send ``hits``, in several messages if there are many: a message has a maximum size."""
        for first in range(0, len(hits), _HITS_IN_MESSAGE):
            self._link.send(messages.Hits(tuple(hits[first : first + _HITS_IN_MESSAGE])))

    def report_diagnosis(self, diagnosis: DiagnosisView) -> None:
        """Send what the diagnosis of the training has found so far."""
        self._diagnosis = messages.Diagnosed(diagnosis)
        self._link.send(self._diagnosis)

    def notice(self, slug: str, text: str, *, is_gap: bool = False) -> None:
        """Show a line on the page. ``is_gap``: it says what is not observed of the training."""
        self._link.send(messages.Notice(slug, text, is_gap))

    # ------------------------------------------------------------- connection

    def on_connect(self, event: Connected, graphs: GraphRegistry, hits: Sequence[Hit]) -> None:
        """Send the server everything that it does not have yet."""
        if event.resumes or self._is_absence_reported:
            self._report(f"sonde: connected to the debugger server at {self._options.address}")
        self._absent_since = None
        _log.info("connected to the debugger server at %s", self._options.address)
        for part in graphs.all_parts():
            self.send(part)
        self.send(self._names, soon=True)
        for norms in self._norms:
            if norms.step > event.welcome.step:
                self.send(norms, soon=True)
        for done in self._steps:
            if done.point.step > event.welcome.step:
                self.send(done, soon=True)
        self.report_hits([hit for hit in hits if hit.number > event.welcome.hit])
        if self._diagnosis is not None:
            self.send(self._diagnosis)
        if self._status is not None:
            self.send(self._status)

    def on_disconnect(self, event: Disconnected, *, is_paused: bool) -> None:
        """Report that the server is gone, and what that means for the training."""
        what = event.why
        if not event.slug:
            what = f"lost the connection to the debugger server ({event.why})"
        if event.for_good:
            self._absent_since = _NEVER
            effect = "continues without the debugger"
        else:
            if self._absent_since is None:
                self._absent_since = time.monotonic() - event.silent_seconds
            effect = self._effect_on_pause() if is_paused else "continues"
        slug = event.slug or "debugger-lost"
        self._report(ProblemLine(f"sonde: {what}; the training {effect}", slug=slug))

    def _effect_on_pause(self) -> str:
        """What a paused training does now."""
        assert self._absent_since is not None
        rest = self._absent_since + self._options.lost_seconds - time.monotonic()
        if isinf(rest):
            return "stays paused until the server returns"
        return f"stays paused for {round(max(rest, 0.0), 1):g} s, then continues"
