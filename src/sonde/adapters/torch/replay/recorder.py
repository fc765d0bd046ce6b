"""Records the running step, so that it can be executed again. Costs microseconds per event.

A hook on all modules is called when an outermost module begins; it takes itself away until that
module has returned, so that the modules inside run at full speed and the compiler, if there is one,
never meets it. Outside of modules `OutsideOps` records the calls of torch's functions.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any

import torch
from torch import nn

from sonde.adapters.torch import private
from sonde.adapters.torch.adapter import ignore_warning_about_hooks
from sonde.adapters.torch.backward_calls import watch_backward
from sonde.adapters.torch.eager.naming.scope_stack import running
from sonde.adapters.torch.eager.naming.scopes import ScopeRegistry
from sonde.adapters.torch.guard import FailureGuard
from sonde.adapters.torch.replay.compiler_entries import watch_compiler
from sonde.adapters.torch.replay.module_calls import CallRecorder, ranks_of
from sonde.adapters.torch.replay.module_hooks import OutermostHook, is_compiled_container
from sonde.adapters.torch.replay.module_state import is_ddp
from sonde.adapters.torch.replay.outside_ops import KnownTensors, OutsideOps
from sonde.adapters.torch.replay.recording.backward_passes import BackwardRecorder
from sonde.adapters.torch.replay.recording.closures import watch_closures
from sonde.adapters.torch.replay.recording.gradients import PriorGradients, optimizer_parameters
from sonde.adapters.torch.replay.recording.step_events import StepEvents
from sonde.adapters.torch.replay.recording.switch import RecordingSwitch
from sonde.adapters.torch.replay.step_record import Event, ReplayProblem, StepRecord
from sonde.core.interruption import raise_interruption


class OptimizerInReplayError(Exception):
    """An optimizer began to step while a step was executed again: a hook of the program does it."""


class StepRecorder:
    """Records what the training thread does between two steps of optimizers.

    ``report`` gets an exception of Sonde's own code; recording is switched off then. The owner
    calls `optimizer_begins` before each step of an optimizer, then `take`, with the result of which
    the step can be executed again, and `step_ended` after it. Where an optimizer is given a closure
    (``has_closure``; LBFGS, Lightning), the gradients exist when the closure has returned, and the
    weights are changed right after: ``closure_returned`` is called then, and may `take` the step.
    ``raised`` is called with an exception that leaves a recorded module or a backward pass, before
    the program can handle it, and may `take` the step, too. ``step_begins`` is called when the
    first module of a step is called.
    """

    def __init__(
        self,
        report: Callable[[Exception], None],
        *,
        rank: int = 0,
        closure_returned: Callable[[torch.optim.Optimizer], None] = lambda optimizer: None,
        raised: Callable[[Exception], None] = lambda error: None,
        step_begins: Callable[[], None] = lambda: None,
    ) -> None:
        self._step_begins = step_begins
        self._report = report
        self._raised = raised
        self._at_closure = closure_returned
        self._rank = rank
        self._guard = FailureGuard(self._failed)
        self.scopes = ScopeRegistry()
        self._switch = RecordingSwitch()
        self._known = KnownTensors()
        self._events = StepEvents(self._known)
        self._backward = BackwardRecorder(self._switch, self._known, self._events)
        self._calls = CallRecorder(self._known, self.scopes, self._events.add_reason)
        self._prior = PriorGradients(self._calls.parameters)
        self._outside = OutsideOps(
            self._known,
            lambda: self._backward.count > 0,
            lambda: self._backward.new_gradients(self._calls.parameters),
            self._add_event,
            self._failed,
        )
        self._hook = OutermostHook(self._module_begins, self._module_ended)
        self._was_active = False
        self._has_begun = False

    def install(self, undo: ExitStack) -> None:
        """Record until ``undo`` is closed."""
        undo.callback(self._remove)
        self._switch.is_on = True
        watch_backward(self, undo)
        watch_closures(self._closure_begins, self._closure_returned, undo)
        self._prior.install(undo)
        watch_compiler(self._hook.hidden, self._compiled_function_begins, undo)
        self._hook.install(undo)
        ignore_warning_about_hooks(undo)

    # ------------------------------------------------------------------ for the owner

    def optimizer_begins(
        self, optimizer: torch.optim.Optimizer, *, has_closure: bool = False
    ) -> None:
        """``optimizer`` is about to step: nothing is recorded until `step_ended`."""
        if self._switch.is_replaying:
            raise OptimizerInReplayError
        if not self._switch.is_on:
            return
        with self._guard:
            self._drop_interrupted_call(sys._getframe(1))
            self._hook.show()
            if self._backward.is_running or self._hook.module is not None:
                self._events.add_reason(ReplayProblem("optimizer_inside", type(optimizer).__name__))
            self._switch.optimizer = optimizer
            if not has_closure:
                self._switch.is_stepping = True
                self._switch.pause(self._outside)

    def take(self, step: int, optimizer: torch.optim.Optimizer | None = None) -> StepRecord:
        """What was recorded since the last step of an optimizer. Valid until the next one."""
        record = StepRecord(step, self._rank, optimizer=optimizer)
        with self._guard:
            self._drop_interrupted_call(sys._getframe(1))
            for call in self._events.calls():
                self._calls.check_inputs(call)
            record.events = list(self._events.events)
            record.unreplayable = list(self._events.reasons)
            record.averaged_over = self._events.ranks
            record.prior_gradients = dict(self._prior.found)
        return record

    def find_owners(self, record: StepRecord) -> None:
        """Add the modules that the optimizer of ``record`` changes and that were not called."""
        if record.optimizer is not None:
            with self._guard:
                record.owners = self._calls.owners(optimizer_parameters(record.optimizer))

    def _closure_begins(self, optimizer: torch.optim.Optimizer) -> None:
        """``optimizer`` calls its closure. The first call may go on with gradients of backward
        passes before the step (Lightning accumulates so); a later one computes them anew."""
        if self._switch.is_on and not self._switch.is_replaying:
            with self._guard:
                if self._switch.closure_calls:
                    self.forget()
                self._switch.closure_calls += 1
                self._switch.is_stepping = False

    def _closure_returned(self, optimizer: torch.optim.Optimizer) -> None:
        """``optimizer`` goes on with the gradients of its closure."""
        if self._switch.is_on:
            with self._guard:
                self._switch.is_stepping = True
                self._switch.pause(self._outside)
            with private.without_torch_functions():
                self._at_closure(optimizer)

    def step_ended(self) -> None:
        """The optimizer has stepped: forget the step, except calls whose backward pass may come."""
        self._switch.stepped()
        if not self._switch.is_on:
            return
        with self._guard:
            pending = [each for each in self._events.calls() if each.is_pending and not each.age]
            self.forget()
            self._calls.carry_over(pending)
            self._events.carry_over(pending)
            if self._backward.watches_always:
                self._switch.resume(self._outside)

    def forget(self) -> None:
        """Forget the events of the running step."""
        self._has_begun = False
        self._events.clear()
        self._known.clear()
        self._prior.forget()
        self._backward.forget()
        self._calls.begin_step()

    @contextmanager
    def replaying(self) -> Iterator[None]:
        """Record nothing in this block, in which a step is executed again."""
        was_on, self._switch.is_on = self._switch.is_on, False
        was_active = self._outside in private.function_modes()
        self._switch.pause(self._outside)
        self._switch.is_replaying = True
        try:
            with self._hook.hidden():
                yield
        finally:
            self._switch.is_replaying = False
            self._switch.is_on = was_on
            if was_active:
                self._switch.resume(self._outside)

    # -------------------------------------------------------------------- module calls

    def _module_begins(self, module: nn.Module, args: Any, frame: FrameType) -> bool:
        """Whether ``module`` is an outermost one to record."""
        self._notice_failed_optimizer(frame)
        if self._switch.is_recording and self._calls.is_transparent(module):
            if is_ddp(module):
                self._events.averaged_by(ranks_of(module))
            return False
        if not self._switch.is_recording:
            if self._switch.is_on and not self._switch.is_own_thread:
                self._events.add_reason(
                    ReplayProblem("other_thread", threading.current_thread().name)
                )
            return False
        if private.is_tracing():
            return False
        with self._guard, private.unobserved():
            self._was_active = self._outside in private.function_modes()
            self._switch.pause(self._outside)
            kwargs = frame.f_locals.get("kwargs", {})
            self._calls.begin(module, args, kwargs, frame, self._backward.count)
            if not self._has_begun:
                self._has_begun = True
                self._step_begins()
            return True
        return False

    def _module_ended(self, module: nn.Module, result: Any, error: BaseException | None) -> None:
        is_kept = False
        with self._guard, private.unobserved():
            call = self._calls.end(module, result, error, self._backward.gradient_arrived)
            if call is not None:
                self._add_event(call)
            if call is not None or self._was_active:
                self._switch.resume(self._outside)
            is_kept = call is not None and isinstance(error, Exception)
        if is_kept and isinstance(error, Exception) and self._switch.is_on:
            with private.without_torch_functions():
                self._raised(error)

    # ----------------------------------------------------------------- backward passes

    def backward_begins(self, tensors: Any, options: dict[str, Any]) -> None:
        self._notice_failed_optimizer(sys._getframe(1))
        if not self._switch.is_recording:
            return
        with self._guard, private.unobserved():
            self._drop_interrupted_call(sys._getframe(1))
            self._hook.show()
            if self._hook.module is not None:
                self._events.add_reason(
                    ReplayProblem("backward_inside", type(self._hook.module).__name__)
                )
                return
            self._switch.pause(self._outside)
            self._prior.take()
            self._backward.begins(tensors, options)

    def backward_ended(self, error: Exception | None) -> None:
        if not self._backward.is_running or not self._switch.is_own_thread:
            return
        with self._guard, private.unobserved():
            self._backward.ended(error)
            self._switch.resume(self._outside)
        if error is not None and self._switch.is_on:
            self._raised(error)

    # -------------------------------------------------------------------------- state

    def _add_event(self, event: Event) -> None:
        if self._switch.is_recording:
            self._events.add(event)

    def _compiled_function_begins(self) -> None:
        """A compiled function is about to run: the compiler must not meet the mode."""
        if self._hook.module is None and self._switch.is_recording:
            with self._guard:
                if is_compiled_container(sys._getframe(1)):
                    self._hook.hide_until_shown()
                if self._outside in private.function_modes():
                    self._switch.pause(self._outside)
                    self._events.add_reason(ReplayProblem("compiled_function"))

    def _notice_failed_optimizer(self, frame: FrameType) -> None:
        """Record again if the optimizer that was stepping has raised."""
        if self._switch.is_stepping and self._switch.is_on and self._switch.is_own_thread:
            with self._guard:
                if not any(each is self._switch.optimizer for each in running(frame)):
                    self._switch.stepped()
                    self.forget()

    def _drop_interrupted_call(self, frame: FrameType) -> None:
        """Forget a module that was left by an exception that no hook is called for."""
        module = self._hook.module
        if module is not None and not any(each is module for each in running(frame)):
            self._hook.clear()
            self._calls.drop()

    def _remove(self) -> None:
        self._switch.is_on = False
        self._switch.pause(self._outside)
        self._hook.remove()
        self.forget()

    def _failed(self, error: Exception) -> None:
        raise_interruption(error)
        if self._switch.is_on:
            self._remove()
            self._report(error)
