"""What a rank and the server say to each other, and what becomes of it when one is away."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from math import inf, isinf
from typing import Final

from sonde.debugger.graphs import GraphBook
from sonde.debugger.link import Link, Lost, News, Welcomed
from sonde.debugger.settings import DebuggerOptions
from sonde.wire.rank import (
    Answer,
    Ask,
    FromRank,
    Goodbye,
    Hello,
    Hits,
    Notice,
    Status,
    StepDone,
)
from sonde.wire.shapes import Hit, LossPoint

_MOST_POINTS: Final = 100_000
_HITS_IN_MESSAGE: Final = 500
_NEVER: Final = -inf
_LITTLE_SECONDS: Final = 1.0


class Conversation:
    """News come in through ``deliver``, in the link's thread; everything else is used from the
    training thread. ``interrupt`` is called with all news, in the link's thread, too."""

    def __init__(
        self,
        options: DebuggerOptions,
        *,
        hello: Callable[[bool], Hello],
        interrupt: Callable[[News], None],
        report: Callable[[str], None],
    ) -> None:
        self._options = options
        self._interrupt = interrupt
        self._report = report
        self._inbox: deque[News] = deque()
        self._news = threading.Condition()
        self._link = Link(options.host, options.port, hello=hello, deliver=self.deliver)
        self._steps: deque[StepDone] = deque(maxlen=_MOST_POINTS)
        self._status: Status | None = None
        self._is_absence_said = False
        self._away_since: float | None = _NEVER  # None while the server is there

    def open(self) -> None:
        """Connect, or say that nobody is there; that the server refuses is told as news."""
        if not self._link.open(self._options.wait_seconds) and not self._link.is_given_up:
            self._is_absence_said = True
            self._report(
                f"sonde: no debugger server answers at {self._options.address}; training goes on "
                "without it, and connects when there is one: start one with 'sonde serve' "
                "[debugger-absent]"
            )

    def close(self, *last: Goodbye) -> None:
        """Say the last words, also to those whose questions are left, and hang up."""
        for news in self._inbox:
            if isinstance(news, Ask):
                error = "the training has ended"
                self.send(Answer(news.request, error=error, slug="tensor-not-kept"))
        self._link.close(*last)

    # -------------------------------------------------------------- listening

    @property
    def is_connected(self) -> bool:
        return self._link.is_connected

    @property
    def has_news(self) -> bool:
        return bool(self._inbox)

    def deliver(self, news: News) -> None:
        self._inbox.append(news)
        self._interrupt(news)
        with self._news:
            self._news.notify()

    def next_news(self) -> News | None:
        """The oldest that nobody has read; None if there are none."""
        return self._inbox.popleft() if self._inbox else None

    def wait(self) -> bool:
        """Until there are news; False if the server was away for so long that it is given up."""
        patience = None
        if self._away_since is not None and not isinf(self._options.lost_seconds):
            patience = self._away_since + self._options.lost_seconds - time.monotonic()
            if patience <= 0:
                self._report("sonde: no debugger server to wait for; training goes on")
                return False
        with self._news:
            if not self._inbox:
                self._news.wait(patience)
        return True

    def wait_a_little(self) -> None:
        """For news that are on their way."""
        with self._news:
            if not self._inbox:
                self._news.wait(_LITTLE_SECONDS)

    @property
    def is_alone(self) -> bool:
        """Whether the server has been away for so long that nobody waits for it any more."""
        since = self._away_since
        if since is None or since == _NEVER:
            return since is not None
        return time.monotonic() - since > self._options.lost_seconds

    # --------------------------------------------------------------- speaking

    def send(self, message: FromRank, *, soon: bool = False) -> None:
        self._link.send(message, soon=soon)

    def tell(self, status: Status, *, soon: bool = False) -> None:
        self._status = status
        self._link.send(status, soon=soon)

    def tell_step(self, point: LossPoint, graph: int | None) -> None:
        self._steps.append(done := StepDone(point, graph))
        self._link.send(done, soon=True)

    def tell_hits(self, hits: Sequence[Hit]) -> None:
        """In several messages if there are many: each has its bound."""
        for first in range(0, len(hits), _HITS_IN_MESSAGE):
            self._link.send(Hits(tuple(hits[first : first + _HITS_IN_MESSAGE])))

    def notice(self, slug: str, text: str) -> None:
        """A line for the person at the page."""
        self._link.send(Notice(slug, text))

    # ------------------------------------------------------ coming and going

    def greet(self, news: Welcomed, graphs: GraphBook, hits: Sequence[Hit]) -> None:
        """The server is there: say everything that it does not know."""
        if news.resumes or self._is_absence_said:
            self._report(f"sonde: connected to the debugger server at {self._options.address}")
        self._away_since = None
        for part in graphs.all_parts():
            self.send(part)
        for done in self._steps:
            if done.point.step > news.welcome.step:
                self.send(done, soon=True)
        self.tell_hits([hit for hit in hits if hit.number > news.welcome.hit])
        if self._status is not None:
            self.send(self._status)

    def mourn(self, news: Lost, *, is_paused: bool) -> None:
        """The server is gone: say what that means for the training."""
        if news.for_good:
            self._away_since = _NEVER
            self._report(f"sonde: {news.why}; training goes on without the debugger [{news.slug}]")
            return
        if self._away_since is None:
            self._away_since = time.monotonic()
        stays = self._stay() if is_paused else "goes on"
        if news.slug:
            self._report(f"sonde: {news.why}; training {stays} [{news.slug}]")
        else:
            self._report(
                f"sonde: lost the debugger server ({news.why}); training {stays} [debugger-lost]"
            )

    def _stay(self) -> str:
        """What a paused training does now."""
        assert self._away_since is not None
        rest = self._away_since + self._options.lost_seconds - time.monotonic()
        if isinf(rest):
            return "stays paused until it is back"
        return f"stays paused for {round(max(rest, 0.0), 1):g} s, then goes on"
