"""The debugger inside a training process: observes its steps, pauses it, ends it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np
import numpy.typing as npt

from sonde.capture.session import Subscription
from sonde.core.running_training import step_text
from sonde.debugger.connection.controller import RankController
from sonde.debugger.parameter_checks import ParameterChecks
from sonde.debugger.parts import RankParts
from sonde.debugger.pauses import Pauses
from sonde.debugger.settings import DebuggerOptions
from sonde.debugger.sink import DebuggerSink
from sonde.debugger.statistic_sink import StatisticSink
from sonde.debugger.steps import ObservedSteps, StepTimer
from sonde.debugger.trainee import Trainee
from sonde.wire.numbers import to_wire
from sonde.wire.rank import Goodbye, ParameterNorms
from sonde.wire.shapes import FailedCall, LossPoint, Metadata, TracebackFrame

WeightNorms = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], npt.NDArray[np.float32]]
"""Norms of gradients and of weights, and ratios of updates, by weight."""
_BRIEF_SECONDS: Final = 1.0
"""How long to wait for messages that are on their way."""


class Debugger:
    """The debugger of one rank. The adapter calls its methods from the training thread.

    A method blocks while the training is paused, and raises nothing but Terminated, when the user
    ends the training.
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
        parts = self._parts = RankParts.build(
            options,
            metadata,
            trainee,
            name=name,
            step=initial_step,
            notify=lambda slug, text: self.session.notice(slug, text),
        )
        self._trainee, self._lookup = trainee, parts.lookup
        self._state, self._control = parts.state, parts.control
        self._controller = RankController(options, metadata, parts, report=report)
        self.watching = parts.watching
        self.session = self._controller.session
        self._timing = StepTimer()
        self._pauses = Pauses(parts, self._controller, self._timing, report=report)
        self._parameters = ParameterChecks(parts)
        self._observed_steps = ObservedSteps(initial_step)
        self._statistics = StatisticSink(parts, self._observed_steps)
        self._controller.recorded_so_far = self._statistics.take
        self._traces = options.trace

    def subscriptions(self) -> list[Subscription]:
        """What the debugger observes, for the capture session. Statistics come first: at a pause
        those of the op at which it is are known."""
        sink = DebuggerSink(
            self._parts, self._controller, self._pauses, self._observed_steps, self._begin
        )
        return [Subscription(self._statistics, self._statistics), Subscription(sink, sink)]

    @property
    def measures_weights(self) -> bool:
        """Whether the norms of gradients and weights are wanted in the running step."""
        return not self.session.is_given_up and not self._parts.speed.is_at(self._state.step)

    def weights_measured(
        self, seconds: float, names: tuple[str, ...], norms: WeightNorms, learning_rate: float
    ) -> None:
        """The weights ``names`` and their gradients were measured, which took ``seconds``; the
        learning rate is NaN if there is none."""
        self._timing.leave_out(seconds)
        rate = None if math.isnan(learning_rate) else learning_rate
        gradients, weights, updates = (each.tobytes() for each in norms)
        self.session.report_norms(
            names, ParameterNorms(self._state.step, gradients, weights, updates, rate)
        )

    # ------------------------------------------------------------------- life

    def start(self) -> None:
        """Connect to the server; without one, report that and train on."""
        self.session.open()
        self._controller.read_messages()
        self._controller.report_status("the program has begun")

    def close(
        self,
        exit_code: int,
        error: str,
        *,
        is_terminated: bool = False,
        frames: tuple[TracebackFrame, ...] = (),
        failed: FailedCall | None = None,
    ) -> None:
        """Report the last hits and the end of the program, and disconnect. ``frames``: the
        traceback of ``error``; ``failed``: the call that raised it."""
        self.watching.end_step()
        self._controller.report_hits(with_counts=True)
        self.session.close(Goodbye(exit_code, error, is_terminated, frames, failed))

    def hand_over(self) -> None:
        """Disconnect without a goodbye: processes that this one started train as ranks."""
        self.session.close()

    # ----------------------------------------------------------------- events

    def begin_at(self, step: int) -> None:
        """Number the first step, which has not begun, ``step``."""
        self._state.begin_at(step)
        self._observed_steps.begin_at(step)

    def _begin(self) -> None:
        """Pause before the first op if the user wants that, and check initial weights."""
        self._controller.read_messages()
        self._state.run()
        self._pauses.end_if_asked()
        self._show_modules()
        if self._controller.pauses_at_start and self.session.is_connected:
            with self._tracing_forward():
                self._pauses.pause("start", "before the first step")
        self._check_new_parameters()
        self._leave_step_end()
        self._timing.begin()
        self._controller.report_status()

    def _show_modules(self) -> None:
        """Send the modules and parameters that are known before their ops have run."""
        trainee = self._trainee
        for part in self._parts.graphs.expect_modules(trainee.modules(), trainee.held()):
            self.session.send(part)

    @contextmanager
    def _tracing_forward(self) -> Iterator[None]:
        """In this block, a pause before the first op, another process finds out which ops will
        run, if that is wanted."""
        stop = self._trainee.trace_forward(self.session.tell) if self._traces else None
        try:
            yield
        finally:
            if stop is not None:
                stop()

    def _check_new_parameters(self) -> None:
        new = self._parameters.find_new()
        if not new:
            return
        stop = self._parameters.check_initial(new)
        if stop is not None:
            self._pauses.pause("hit", stop)
        self._parameters.copy_new(new)

    def between_ops(self) -> None:
        """The training is before its backward pass or an update, in a step whose ops may not be
        observed: execute the user's messages here instead of at the end of the step."""
        if not self._state.is_interrupted or self._trainee.is_observed():
            return
        with self._lookup.inside_step(None):
            self._controller.read_messages()
            if self._control.is_pause_due:
                self._pauses.pause("pause", "")
        self._pauses.end_if_asked()

    def collective_failed(self) -> None:
        """A collective operation failed: end this rank too if the other ranks are being ended."""
        if not self.session.is_connected:
            return
        self.session.inbox.wait(_BRIEF_SECONDS)
        self._controller.read_messages()
        self._pauses.raise_if_ending()

    def before_update(self) -> None:
        """An optimizer is about to change weights."""
        self.between_ops()
        if self._state.has_begun:
            self._check_new_parameters()

    def gradients_ready(self, weights: Iterable[str]) -> None:
        """An optimizer is about to use the gradients of these weights."""
        if not self.watching.needs_gradients or self._parts.speed.is_at(self._state.step):
            return
        with self._trainee.unobserved():
            stop = self.watching.gradients(weights, self._state.step)
        if stop is not None:
            with self._lookup.inside_step(None):
                self._pauses.pause("hit", stop)

    def step_ended(self, loss: float | None, optimizer: str = "") -> None:
        """A step is over, the one of ``optimizer`` if several take turns."""
        if not self._state.has_begun:
            self._begin()
        self._pauses.count_steps_to_end()
        self._report_step(loss, optimizer)
        stop = self._parameters.check_updated()
        self.watching.end_step()
        self._controller.report_hits()
        reason = self._control.reason_at_step_end(self._parts.graphs.may_run_later)
        if stop is not None:
            self._pauses.pause("hit", stop, is_step_over=True)
        elif reason == "missed":
            why = f"{self._control.missed} did not run in {step_text(self._state.step - 1)}"
            self._pauses.pause(reason, why, is_step_over=True)
        elif reason is not None:
            self._pauses.pause(reason, "", is_step_over=True)
        else:
            self._controller.report_status(soon=True)
        self._pauses.end_if_asked(is_step_over=True)
        self._leave_step_end()
        self._timing.next_step()

    def _report_step(self, loss: float | None, optimizer: str) -> None:
        graphs, step = self._parts.graphs, self._state.step
        seconds, seconds_alone = self._timing.step_ended()
        is_observed = self._trainee.is_observed()
        is_measurement = self._parts.speed.is_at(step)
        is_bare = not is_observed and (is_measurement or not self.watching.needs_gradients)
        # How long an observed step would have taken without Sonde is not known.
        bare_seconds = seconds_alone if is_bare else None
        value = None if loss is None else to_wire(loss)
        point = LossPoint(step, value, seconds, bare_seconds, is_observed, optimizer)
        graphs.current = self._observed_steps.step_over(
            step, optimizer, graphs.current, is_observed=is_observed
        )
        self._state.end_step()
        if self.session.inbox:  # Questions are about the weights as they are now.
            self._controller.read_messages()
        self._controller.report_statistics()
        self.session.report_step(point, graphs.current, is_measurement=is_measurement)
        if is_measurement:
            self._report_measurement(step, is_observed=is_observed)

    def _report_measurement(self, step: int, *, is_observed: bool) -> None:
        if is_observed:
            text = f"step {step} was observed for a dump: the speed was not measured"
            self.session.notice(slug="speed-not-measured", text=text)
            return
        # No later step may take older statistics for those of the step before it.
        self._parts.previous.forget_statistics(before=step)
        text = f"step {step} ran unobserved to measure the speed"
        self.session.notice(slug="speed-measured", text=text)

    def breakpoint(self, why: str) -> None:
        """Pause: the program called ``sonde.breakpoint()``, or its guard asks for it."""
        if self.session.is_connected:
            self._state.run()
            self._pauses.pause("breakpoint", why)
            self._pauses.end_if_asked()

    def _leave_step_end(self) -> None:
        self._state.clear_interrupt()
        self._parameters.copy_all()
        self._control.begin_step()
        step = self._state.step
        is_needed = self._observed_steps.wants(step) or self._control.needs_ops
        self._parts.speed.begin_step(step, may_skip=not is_needed)
