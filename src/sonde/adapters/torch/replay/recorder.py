"""Records the running step, so that it can be executed again. Costs microseconds per event.

A hook on all modules is called when an outermost module begins; it takes itself away until that
module has returned, so that the modules inside run at full speed and the compiler, if there is one,
never meets it. Outside of modules `OutsideOps` records the calls of torch's functions.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
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
from sonde.adapters.torch.replay.kept_tensor import KeptTensor
from sonde.adapters.torch.replay.module_calls import CallRecorder, is_transparent
from sonde.adapters.torch.replay.module_hooks import OutermostHook, is_compiled_container
from sonde.adapters.torch.replay.outside_ops import (
    KnownTensors,
    OutsideOps,
    pop_function_mode_below,
    push_function_mode_below,
)
from sonde.adapters.torch.replay.recording.backward_roots import describe_backward, graph_name
from sonde.adapters.torch.replay.recording.closures import watch_closures
from sonde.adapters.torch.replay.recording.gradients import PriorGradients, optimizer_parameters
from sonde.adapters.torch.replay.recording.step_events import StepEvents
from sonde.adapters.torch.replay.step_record import (
    BackwardPass,
    Event,
    ModuleCall,
    ReplayProblem,
    StepRecord,
)
from sonde.core.interruption import is_interruption

_MOST_UNSEEN = 3


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
    the program can handle it, and may `take` the step, too.
    """

    def __init__(
        self,
        report: Callable[[Exception], None],
        *,
        rank: int = 0,
        closure_returned: Callable[[torch.optim.Optimizer], None] = lambda optimizer: None,
        raised: Callable[[Exception], None] = lambda error: None,
    ) -> None:
        self._report = report
        self._raised = raised
        self._at_closure = closure_returned
        self._rank = rank
        self._thread = threading.get_ident()
        self._pid = os.getpid()
        self._guard = FailureGuard(self._failed)
        self.scopes = ScopeRegistry()
        self._is_on = False
        self._is_replaying = False
        self._is_stepping = False
        self._closure_calls = 0
        self._optimizer: torch.optim.Optimizer | None = None
        self._watches_always = False
        self._backward: BackwardPass | None = None
        self._passes = 0
        self._known = KnownTensors()
        self._events = StepEvents(self._known)
        self._calls = CallRecorder(self._known, self.scopes, self._events.add_reason)
        self._prior = PriorGradients(self._calls.parameters)
        self._outside = OutsideOps(
            self._known,
            lambda: self._passes > 0,
            self._new_gradients,
            self._add_event,
            self._failed,
        )
        self._hook = OutermostHook(self._module_begins, self._module_ended)
        self._has_new_gradients = False
        self._was_active = False
        self._unseen = 0

    def install(self, undo: ExitStack) -> None:
        """Record until ``undo`` is closed."""
        undo.callback(self._remove)
        self._is_on = True
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
        if self._is_replaying:
            raise OptimizerInReplayError
        if not self._is_on:
            return
        with self._guard:
            self._drop_interrupted_call(sys._getframe(1))
            self._hook.show()
            if self._backward is not None or self._hook.module is not None:
                self._events.add_reason(ReplayProblem("optimizer_inside", type(optimizer).__name__))
            self._optimizer = optimizer
            if not has_closure:
                self._is_stepping = True
                self._pause()

    def take(
        self,
        step: int,
        optimizer: torch.optim.Optimizer | None = None,
        *,
        finds_owners: bool = False,
    ) -> StepRecord:
        """What was recorded since the last step of an optimizer. Valid until the next one.
        ``finds_owners``: with the modules that the optimizer changes and that were not called."""
        record = StepRecord(step, self._rank, optimizer=optimizer)
        with self._guard:
            self._drop_interrupted_call(sys._getframe(1))
            for call in self._events.calls():
                self._calls.check_inputs(call)
            record.events = list(self._events.events)
            record.unreplayable = list(self._events.reasons)
            record.prior_gradients = dict(self._prior.found)
            if finds_owners and optimizer is not None:
                record.owners = self._calls.owners(optimizer_parameters(optimizer))
        return record

    def _closure_begins(self, optimizer: torch.optim.Optimizer) -> None:
        """``optimizer`` calls its closure. The first call may go on with gradients of backward
        passes before the step (Lightning accumulates so); a later one computes them anew."""
        if self._is_on and not self._is_replaying:
            with self._guard:
                if self._closure_calls:
                    self.forget()
                self._closure_calls += 1
                self._is_stepping = False

    def _closure_returned(self, optimizer: torch.optim.Optimizer) -> None:
        """``optimizer`` goes on with the gradients of its closure."""
        if self._is_on:
            with self._guard:
                self._is_stepping = True
                self._pause()
            with private.without_torch_functions():
                self._at_closure(optimizer)

    def step_ended(self) -> None:
        """The optimizer has stepped: forget the step, except calls whose backward pass may come."""
        self._is_stepping, self._optimizer, self._closure_calls = False, None, 0
        if not self._is_on:
            return
        with self._guard:
            pending = [each for each in self._events.calls() if each.is_pending and not each.age]
            self.forget()
            self._calls.carry_over(pending)
            self._events.carry_over(pending)
            if self._watches_always:
                self._resume()

    def forget(self) -> None:
        """Forget the events of the running step."""
        self._events.clear()
        self._known.clear()
        self._prior.forget()
        self._passes = 0
        self._backward = None
        self._has_new_gradients = False
        self._calls.begin_step()

    @contextmanager
    def replaying(self) -> Iterator[None]:
        """Record nothing in this block, in which a step is executed again."""
        was_on, self._is_on = self._is_on, False
        was_active = self._outside in private.function_modes()
        self._pause()
        self._is_replaying = True
        try:
            with self._hook.hidden():
                yield
        finally:
            self._is_replaying = False
            self._is_on = was_on
            if was_active:
                self._resume()

    # -------------------------------------------------------------------- module calls

    def _is_recording(self) -> bool:
        return (
            self._is_on
            and not self._is_stepping
            and self._backward is None
            and not private.is_transforming()
            and threading.get_ident() == self._thread
            and os.getpid() == self._pid
        )

    def _module_begins(self, module: nn.Module, args: Any, frame: FrameType) -> bool:
        """Whether ``module`` is an outermost one to record."""
        self._notice_failed_optimizer(frame)
        if self._is_recording() and is_transparent(module):
            if torch.distributed.get_world_size() > 1:
                self._events.add_reason(ReplayProblem("reduced_gradients"))
            return False
        if not self._is_recording():
            if self._is_on and threading.get_ident() != self._thread:
                self._events.add_reason(
                    ReplayProblem("other_thread", threading.current_thread().name)
                )
            return False
        if private.is_tracing():
            return False
        with self._guard, private.unobserved():
            self._was_active = self._outside in private.function_modes()
            self._pause()
            kwargs = frame.f_locals.get("kwargs", {})
            self._calls.begin(module, args, kwargs, frame, self._passes)
            return True
        return False

    def _module_ended(self, module: nn.Module, result: Any, error: BaseException | None) -> None:
        is_kept = False
        with self._guard, private.unobserved():
            call = self._calls.end(module, result, error, self._gradient_arrived)
            if call is not None:
                self._add_event(call)
            if call is not None or self._was_active:
                self._resume()
            is_kept = call is not None and isinstance(error, Exception)
        if is_kept and isinstance(error, Exception) and self._is_on:
            with private.without_torch_functions():
                self._raised(error)

    def _gradient_arrived(self, call: ModuleCall, number: int, gradient: torch.Tensor) -> None:
        output = call.outputs[number]
        if self._is_replaying or self._backward is None:
            return
        call.is_pending = False
        if output.backward is None:
            output.backward = self._backward.number
            if not self._backward.is_connected or output.is_small:
                output.gradient = gradient.detach()
        else:  # Differentiated twice: the graph was retained.
            output.gradient = None

    # ----------------------------------------------------------------- backward passes

    def backward_begins(self, tensors: Any, options: dict[str, Any]) -> None:
        self._notice_failed_optimizer(sys._getframe(1))
        if not self._is_recording():
            return
        with self._guard, private.unobserved():
            self._drop_interrupted_call(sys._getframe(1))
            self._hook.show()
            if self._hook.module is not None:
                self._events.add_reason(
                    ReplayProblem("backward_inside", type(self._hook.module).__name__)
                )
                return
            self._pause()
            self._prior.take()
            self._backward = describe_backward(self._passes, tensors, options, self._known)
            if not self._backward.is_connected:
                # Ops before the first module may explain it; else watching them is in vain.
                self._unseen += 1
                self._watches_always = self._unseen <= _MOST_UNSEEN
                self._events.add_reason(ReplayProblem("outside_unseen", detail=graph_name(tensors)))
            self._add_event(self._backward)

    def backward_ended(self, error: Exception | None) -> None:
        if self._backward is None or threading.get_ident() != self._thread:
            return
        with self._guard, private.unobserved():
            self._backward.error = error
            self._backward = None
            self._passes += 1
            self._has_new_gradients = True
            self._resume()
        if error is not None and self._is_on:
            self._raised(error)

    def _new_gradients(self) -> Iterable[KeptTensor]:
        """The gradients of parameters after the last backward pass, if they are not known yet."""
        if not self._has_new_gradients:
            return
        self._has_new_gradients = False
        last = self._events.last_backward()
        for parameter in self._calls.parameters():
            gradient = parameter.grad
            if gradient is not None:
                version = private.version_of(gradient)
                kept = KeptTensor(id(gradient), gradient, version, False, gradient)
                last.parameter_gradients.append((parameter, kept))
                yield kept

    # -------------------------------------------------------------------------- state

    def _add_event(self, event: Event) -> None:
        if self._is_recording() or isinstance(event, BackwardPass):
            self._events.add(event)

    def _compiled_function_begins(self) -> None:
        """A compiled function is about to run: the compiler must not meet the mode."""
        if self._hook.module is None and self._is_recording():
            with self._guard:
                if is_compiled_container(sys._getframe(1)):
                    self._hook.hide_until_shown()
                if self._outside in private.function_modes():
                    self._pause()
                    self._events.add_reason(ReplayProblem("compiled_function"))

    def _notice_failed_optimizer(self, frame: FrameType) -> None:
        """Record again if the optimizer that was stepping has raised."""
        if self._is_stepping and self._is_on and threading.get_ident() == self._thread:
            with self._guard:
                if not any(each is self._optimizer for each in running(frame)):
                    self._is_stepping, self._optimizer, self._closure_calls = False, None, 0
                    self.forget()

    def _drop_interrupted_call(self, frame: FrameType) -> None:
        """Forget a module that was left by an exception that no hook is called for."""
        module = self._hook.module
        if module is not None and not any(each is module for each in running(frame)):
            self._hook.clear()
            self._calls.drop()

    def _pause(self) -> None:
        pop_function_mode_below(self._outside)

    def _resume(self) -> None:
        if self._is_recording() and not self._outside.is_running:
            push_function_mode_below(self._outside)

    def _remove(self) -> None:
        self._is_on = False
        self._pause()
        self._hook.remove()
        self.forget()

    def _failed(self, error: Exception) -> None:
        if is_interruption(error):
            raise error
        if self._is_on:
            self._remove()
            self._report(error)
