"""What the person at the page and the training have to say to each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sonde.core.errors import SondeError
from sonde.core.sink import OpCall
from sonde.debugger.checking import Checking, Here
from sonde.debugger.control import Control
from sonde.debugger.conversation import Conversation
from sonde.debugger.former import FormerValues
from sonde.debugger.graphs import GraphBook
from sonde.debugger.keeping import Keeping
from sonde.debugger.library import Library
from sonde.debugger.link import Lost, News, Welcomed
from sonde.debugger.settings import DebuggerOptions
from sonde.debugger.trainee import Trainee
from sonde.debugger.watching import Watching
from sonde.wire.questions import Checked
from sonde.wire.rank import (
    PROTOCOL,
    Ask,
    Hello,
    Keep,
    SetWatchpoints,
    Status,
)
from sonde.wire.rank import Control as ControlMessage
from sonde.wire.shapes import Metadata, PauseReason, State, WatchpointSpec

_WITHOUT_OPS: Final = "before the next backward pass or update: ops are not observed in this step"


class Desk:
    """Knows where the training is, tells the server, and does what comes from there, with the
    parts that keep and judge values. Used from the training thread.

    ``has_begun``: the first op ran, or was about to. ``pauses_at_start``: it waits then.
    ``is_interrupted``: the person wants something at the next op.
    """

    def __init__(
        self,
        options: DebuggerOptions,
        metadata: Metadata,
        trainee: Trainee,
        *,
        name: str,
        report: Callable[[str], None],
        step: int,
    ) -> None:
        self._options = options
        self._metadata = metadata
        self._trainee = trainee
        self.step = step
        self.state: State = "waiting"
        self.has_begun = False
        self.is_interrupted = False
        self.pauses_at_start = bool(options.pause)
        self.control = Control()
        self.graphs = GraphBook(name)
        self.former = FormerValues(trainee, options.budget_bytes, self._budget_is_full)
        self.watching = Watching(
            metadata.rank, trainee, self.former, self.graphs, self._complain_of_watchpoint
        )
        self.keeping = Keeping(options.budget_bytes)
        self.library = Library(
            trainee, self.graphs, self.keeping.values, self.former.find, self._check
        )
        self._checking = Checking(trainee, self.graphs, self.keeping.values, self.watching)
        self.talk = Conversation(
            options, hello=self._hello, interrupt=self._interrupt, report=report
        )

    # ---------------------------------------------------------------- telling

    def tell(
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
            state=self.state,
            step=self.step,
            graph=self.graphs.here if op is None else self.graphs.graph_with(op),
            op=op,
            order=None if call is None else call.order,
            reason=reason,
            message=message,
            generation=self.control.generation,
        )
        self.talk.tell(status, soon=soon)

    def send_hits(self) -> None:
        self.talk.tell_hits(self.watching.hits.take())

    # -------------------------------------------------------------- listening

    def read_news(self) -> None:
        while (news := self.talk.next_news()) is not None:
            try:
                self._obey(news)
            except SondeError as error:
                self.talk.notice(error.slug, error.message)
        if self.is_interrupted:
            self.is_interrupted = False
            self._trainee.refresh()

    def _interrupt(self, news: News) -> None:
        """Called in the link's thread: what the person wants is asked for at the next op."""
        if isinstance(news, ControlMessage | SetWatchpoints) and self.state == "running":
            self.is_interrupted = True
            if self._trainee.is_observed():
                self._trainee.refresh()

    def _obey(self, news: News) -> None:
        match news:
            case ControlMessage():
                self._obey_control(news)
            case SetWatchpoints():
                self._set_watchpoints(news.watchpoints)
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
        if not self.has_begun:
            # Said before there was anything to stop: it stands for what is said at the start.
            self.pauses_at_start = message.command == "pause"
        elif self.state == "running" and message.command == "pause":
            here = "at the next op" if self._trainee.is_observed() else _WITHOUT_OPS
            self.tell(f"pausing {here}")

    def _set_watchpoints(self, watchpoints: Sequence[WatchpointSpec]) -> None:
        self.former.forget_statistics(before=self.step - 1)
        self.watching.set(watchpoints)

    def _greet(self, news: Welcomed) -> None:
        if not news.resumes and self._options.pause is None and not self.has_begun:
            self.pauses_at_start = news.welcome.paused
        self._set_watchpoints(news.welcome.watchpoints)
        self._trainee.refresh()
        self.talk.greet(news, self.graphs, self.watching.hits.remembered)

    def _check(self, here: Here) -> Checked:
        """What the watchpoints say of what is at hand; hits are told before."""
        checked = self._checking.check(here)
        self.send_hits()
        return checked

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

    def _budget_is_full(self, text: str) -> None:
        self.talk.notice("debugger-budget", text)

    def _complain_of_watchpoint(self, error: SondeError) -> None:
        self.talk.notice(error.slug, f"a watchpoint is left out: {error.message}")
