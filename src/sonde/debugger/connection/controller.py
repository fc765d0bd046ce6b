"""Executes the messages of the server on a rank, and reports the rank's status and hits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from sonde.core.errors import SondeError
from sonde.core.sink import OpCall
from sonde.debugger.check_now import Here, PauseCheck
from sonde.debugger.connection.link import Connected, Disconnected, ServerEvent
from sonde.debugger.connection.session import ServerSession, SessionEvent
from sonde.debugger.parts import RankParts
from sonde.debugger.settings import DebuggerOptions
from sonde.debugger.trainee import ForwardTrace
from sonde.wire import rank as messages
from sonde.wire.convert import wire_hit
from sonde.wire.questions import Checked
from sonde.wire.shapes import HitRef, Metadata, PauseReason, WatchpointSpec

_WITHOUT_OPS: Final = "before the next backward pass or update: ops are not observed in this step"


class RankController:
    """The rank's side of the conversation with the server. Used from the training thread; the
    link's thread calls only ``_interrupt``.

    ``pauses_at_start``: whether to pause before the first step. ``recorded_so_far`` returns the
    statistics of ops that were not sent yet.
    """

    def __init__(
        self,
        options: DebuggerOptions,
        metadata: Metadata,
        parts: RankParts,
        *,
        report: Callable[[str], None],
    ) -> None:
        self._options = options
        self._metadata = metadata
        self._parts = parts
        self.pauses_at_start = bool(options.pause)
        self.recorded_so_far: Callable[[], Iterator[messages.OpStatistics]] = lambda: iter(())
        self._kept = messages.Kept((), ())
        self._pause_check = PauseCheck(
            parts.trainee, parts.graphs, parts.recorder.values, parts.watching
        )
        self.session = ServerSession(
            options, hello=self._hello, interrupt=self._interrupt, report=report
        )

    # ------------------------------------------------------------- reporting

    def report_status(
        self,
        message: str = "",
        *,
        reason: PauseReason | None = None,
        call: OpCall | None = None,
        soon: bool = False,
        hit: HitRef | None = None,
    ) -> None:
        """Tell the server where the training is: after ``call``, if that is given."""
        parts = self._parts
        op = None if call is None else call.node.name
        status = messages.Status(
            state=parts.state.state,
            step=parts.state.step,
            graph=parts.graphs.here if op is None else parts.graphs.graph_with(op),
            op=op,
            order=None if call is None else call.order,
            reason=reason,
            message=message,
            generation=parts.control.generation,
            hit=hit,
        )
        self.session.report_status(status, soon=soon)

    def report_statistics(self) -> None:
        """Send the statistics of ops that were recorded since the last call."""
        for message in self.recorded_so_far():
            self.session.send(message, soon=True)

    def report_kept(self) -> None:
        """Tell the server what is kept on request, and how much memory that takes."""
        kept = messages.Kept(self._parts.recorder.kept(), self._parts.recorded.names)
        if kept != self._kept:
            self._kept = kept
            self.session.send(kept)

    def report_hits(self, *, with_counts: bool = False) -> None:
        """Send the hits that were not sent yet; ``with_counts``: and how often the tensors that
        have hits had the same again since."""
        if with_counts:
            self._parts.watching.hits.collector.report_counts()
        hits = self._parts.watching.hits.collector.take()
        self.session.report_hits([wire_hit(each) for each in hits])

    # -------------------------------------------------------------- messages

    def read_messages(self) -> None:
        """Execute the messages that arrived since the last call."""
        while (event := self.session.inbox.take()) is not None:
            try:
                self._execute(event)
            except SondeError as error:
                self.session.notice(error.slug, error.message)
        if self._parts.state.clear_interrupt():
            self._parts.trainee.refresh()

    def _interrupt(self, event: ServerEvent) -> None:
        """Called in the link's thread: have the training read its messages at the next op."""
        parts = self._parts
        is_urgent = isinstance(event, messages.ControlMessage | messages.SetWatchpoints)
        if is_urgent and parts.state.interrupt() and parts.trainee.is_observed():
            parts.trainee.refresh()

    def _execute(self, event: SessionEvent) -> None:
        parts = self._parts
        match event:
            case messages.ControlMessage():
                self._execute_control(event)
            case messages.SetWatchpoints():
                self._set_watchpoints(event.watchpoints)
            case messages.Keep():
                parts.recorder.add(event.ops, event.steps, parts.trainee.held())
                parts.trainee.refresh()
                self.report_kept()
            case messages.Record():
                parts.recorded.set(event.op, is_on=event.is_on)
                parts.trainee.refresh()
                self.report_kept()
            case messages.MeasureSpeed():
                parts.speed.ask(event.first)
            case messages.Ask():
                with parts.trainee.unobserved():
                    for answer in parts.lookup.answers(event, self._check):
                        self.session.send(answer)
            case ForwardTrace():
                self._show_trace(event)
            case Connected():
                self._on_connect(event)
            case Disconnected():
                self.session.on_disconnect(event, is_paused=parts.control.is_paused)
                if event.for_good and parts.control.is_paused:
                    parts.control.run_freely()
            case _:
                pass  # The link consumes Welcome and Refused, which come once.

    def _execute_control(self, message: messages.ControlMessage) -> None:
        parts = self._parts
        parts.control.execute(message)
        if not parts.state.has_begun:
            # There is nothing to pause yet: the command replaces the setting of the start.
            self.pauses_at_start = message.command == "pause"
        elif parts.state.state == "running" and message.command == "pause":
            where = "at the next op" if parts.trainee.is_observed() else _WITHOUT_OPS
            self.report_status(f"pausing {where}")

    def _show_trace(self, trace: ForwardTrace) -> None:
        """Send the ops of the forward pass that has not run yet, or say why they are not known."""
        graphs, held = self._parts.graphs, self._parts.trainee.held()
        for part in graphs.expect_ops(trace, held):
            self.session.send(part)
        if trace.problem and not graphs.count:
            text = (
                "the ops of the forward pass are shown when they have run; they cannot be found "
                f"out before: {trace.problem}"
            )
            self.session.notice(slug="forward-not-traced", text=text)

    def _set_watchpoints(self, watchpoints: Sequence[WatchpointSpec]) -> None:
        self._parts.previous.forget_statistics(before=self._parts.state.step - 1)
        self._parts.watching.set(watchpoints)
        self._parts.trainee.refresh()

    def _on_connect(self, event: Connected) -> None:
        parts = self._parts
        if not event.resumes and self._options.pause is None and not parts.state.has_begun:
            self.pauses_at_start = event.welcome.paused
        self._set_watchpoints(event.welcome.watchpoints)
        hits = [wire_hit(each) for each in parts.watching.hits.collector.remembered]
        self.session.on_connect(event, parts.graphs, hits)
        self.session.send(self._kept)

    def _check(self, here: Here) -> Checked:
        """Evaluate the watchpoints on the available values; the hits are sent before the answer."""
        checked = self._pause_check.check(here)
        self.report_hits()
        return checked

    def _hello(self, resumes: bool) -> messages.Hello:
        parts = self._parts
        return messages.Hello(
            messages.PROTOCOL,
            "",  # The link knows the token.
            self._options.run,
            self._metadata,
            resumes,
            parts.watching.specs if resumes else self._options.watchpoints,
            parts.control.generation,
        )
