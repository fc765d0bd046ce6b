"""Observes a torch program for one session: the whole life of a capture."""

from __future__ import annotations

import logging
import os
import traceback
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Literal, cast

import torch
from torch import nn

from sonde.adapters.torch import private
from sonde.adapters.torch.compiled.gate import CompiledMode, CompilerWatch, possible_mode
from sonde.adapters.torch.eager.dispatch_mode import CompiledAwareObserver, Observer
from sonde.adapters.torch.eager.naming.scopes import ScopeRegistry
from sonde.adapters.torch.eager.observation_switch import ObservationState, ObservationSwitch
from sonde.adapters.torch.eager.op_tree import Structures
from sonde.adapters.torch.eager.optimizer_skip import OptimizerSkip
from sonde.adapters.torch.eager.outside_step import Observed
from sonde.adapters.torch.eager.step_end import StepHooks
from sonde.adapters.torch.guard import FailureGuard
from sonde.adapters.torch.listener import ShieldedListener
from sonde.adapters.torch.steps.endless_step import EndlessStep
from sonde.adapters.torch.steps.step_cycle import StepCycle
from sonde.adapters.torch.steps.step_numbers import StepNumbers
from sonde.capture.session import Session
from sonde.core.coverage import Gap
from sonde.core.interruption import hidden_interruption, raise_interruption
from sonde.core.text.problem_line import ProblemLine
from sonde.core.threads.recursion_room import recursion_room
from sonde.core.weak_table import WeakTable

logger = logging.getLogger("sonde.capture")

StepBy = Literal["optimizer", "manual"]


class TorchAdapter:
    """Makes torch emit op calls for ``session``.

    ``starts_at_once``: the first step begins right away; else with the first op that runs inside a
    module or on a tensor that requires a gradient, so that a script's preparations belong to no
    step. Used from the thread that attaches it, which must be the one that trains. ``listener`` is
    called at steps and optimizers, whether ops are observed or not. ``observe``: what belongs to
    the steps although it is not training, see ``eager/outside_step``. ``scopes``: the names of
    modules that are known already. ``watches_optimizers``: False where a hook of an optimizer
    attaches the adapter, since torch iterates over these hooks then; steps end with `end_step`.
    """

    def __init__(
        self,
        session: Session,
        *,
        name: str,
        starts_at_once: bool,
        step_by: StepBy = "optimizer",
        compiled: CompiledMode = "observe",
        observe: Collection[Observed] = (),
        scopes: ScopeRegistry | None = None,
        watches_optimizers: bool = True,
    ) -> None:
        self._session = session
        self._watches_optimizers = watches_optimizers
        self._step_by = step_by
        self._guard = FailureGuard(self._failed)
        self._pid = os.getpid()
        self._is_thread_reported = False
        self._is_drop_reported = False
        self._at_close: list[Callable[[], None]] = []
        self.listener = ShieldedListener(session.report)
        self._scopes = ScopeRegistry() if scopes is None else scopes
        structures = Structures(name)
        mode = possible_mode(compiled, session)
        self.observer = self._make_observer(mode, structures, starts_at_once, observe)
        self._skip = OptimizerSkip(self.observer, session)
        self._switch = ObservationSwitch(
            self.observer, self._skip, self._failed, self._find_trainer, self._module_ran_elsewhere
        )
        self._compiler = CompilerWatch(
            compiled, mode, session, self.observer, self._scopes, self._switch, self._failed
        )
        self._endless = EndlessStep(self._notify, step_by, self._backward_began)
        self._numbers = StepNumbers(self._begin_at, lambda: session.step, self._failed)
        self._steps = self._make_step_cycle(structures)
        self._step_hooks = StepHooks(
            self._optimizer_begins, self._optimizer_left, self._step_ended, self._report_thread
        )

    def _make_observer(
        self,
        mode: CompiledMode,
        structures: Structures,
        starts_at_once: bool,
        observe: Collection[Observed],
    ) -> Observer:
        kind = Observer if mode == "eager" else CompiledAwareObserver
        return kind(
            self._session,
            self._scopes,
            structures,
            self._failed,
            starts_at_once=starts_at_once,
            observe=observe,
            notify=self._notify,
        )

    def _backward_began(self) -> None:
        with FailureGuard(self._failed):
            self._steps.backward_began()

    def _make_step_cycle(self, structures: Structures) -> StepCycle:
        return StepCycle(
            self._session,
            self.observer,
            structures,
            self._scopes,
            self._switch,
            self._skip,
            self._compiler,
            self.listener,
            self._endless.step_ended,
        )

    @contextmanager
    def attach(self) -> Iterator[TorchAdapter]:
        """Observe until the block is left, then flush and close the session's sinks."""
        with ExitStack() as undo:
            undo.enter_context(recursion_room())
            self.observer.install(undo)
            if self._watches_optimizers:
                self._step_hooks.install(undo)
            if self._session.subscriptions:
                self._endless.install(undo)
                self._numbers.install(undo)
            ignore_warning_about_hooks(undo)
            self._compiler.install(undo)
            _LIVE[self] = None
            self._steps.begin()
            try:
                yield self
            finally:
                _LIVE.discard(self)
                self._close()

    def end_step(self) -> None:
        """End the running step here (``sonde.step()``)."""
        with self._guard, private.without_torch_functions():
            self._steps.end()

    def refresh(self) -> None:
        """Ask every consumer again what it wants."""
        self._session.refresh()
        self.observer.refresh()

    @property
    def is_observing(self) -> bool:
        """Whether the ops of the running step are observed."""
        return self._switch.is_observing

    def at_close(self, action: Callable[[], None]) -> None:
        """Call ``action`` when the session has been closed."""
        self._at_close.append(action)

    @property
    def step(self) -> int:
        """The number of the running step."""
        return self._session.step

    def parameter_name(self, parameter: torch.Tensor) -> tuple[str, str] | None:
        """The name of a parameter and the scope of its module, once known."""
        return self.observer.inputs.leaves.parameter_name(parameter)

    def scope_name(self, module: nn.Module) -> str | None:
        """The scope of a module, once known."""
        return self._scopes.name_of(module)

    def name_root(self, name: str, module: nn.Module) -> None:
        """Name an outermost module before it is called."""
        self._scopes.add_root(name, module)

    def innermost_modules(self) -> Iterator[tuple[str, nn.Module]]:
        """The known modules without modules inside them, by their scopes."""
        for _, root in self._scopes.roots():
            for module in root.modules():
                scope = self._scopes.name_of(module)
                if scope is not None and next(module.children(), None) is None:
                    yield scope, module

    def abandon_in_child(self) -> None:
        """Stop observing, in a forked child: files and threads are the parent's."""
        self.observer.is_suspended = True
        self._compiler.stop()
        self._switch.abandon()

    # ------------------------------------------------------------------ hooks

    def _optimizer_begins(self, optimizer: torch.optim.Optimizer) -> None:
        closure = self._step_hooks.closure
        if self._switch.is_observing:
            with self._guard:
                self.observer.inputs.leaves.know_optimizer(optimizer)
                self.observer.scopes.enter_optimizer(optimizer, closure)
        with self._guard:
            self.observer.outside.know_optimizer(optimizer)
            self._find_trainer()
        self.listener.optimizer_begins(optimizer, has_closure=closure is not None)
        is_on = self._switch.state is ObservationState.ON and not self.observer.is_suspended
        if is_on and self._step_by == "optimizer" and closure is None:
            with self._guard:
                self._skip.begins(optimizer)

    def _optimizer_left(self, optimizer: torch.optim.Optimizer) -> None:
        if self._switch.is_observing:
            with self._guard:
                self.observer.scopes.leave(optimizer)
        self.listener.optimizer_left(optimizer)

    def _step_ended(self) -> None:
        if self._step_by == "optimizer":
            self.end_step()

    def _find_trainer(self) -> None:
        if self._session.subscriptions and not self._steps.has_completed_step:
            self._numbers.find_trainer()

    def _begin_at(self, step: int) -> None:
        """Number the steps from ``step``, unless the first one has begun, or the user numbers."""
        session = self._session
        if session.initial_step or self._steps.has_begun or session.step == step:
            return
        self.listener.begin_at(step)
        self._steps.begin_at(step)
        lasts = [each.request.steps.last for each in session.subscriptions]
        is_late = all(last is not None and last < step for last in lasts)
        self._notify(
            f"the training goes on after {step} steps: its steps are numbered from {step}"
            + ("; the steps to observe all lie before that" if is_late else ""),
            slug="resumed",
        )

    def _notify(self, text: str, *, slug: str) -> None:
        """Print a line, and show it on the page of the debugger."""
        self._session.report(ProblemLine(f"sonde: {text}", slug=slug))
        self.listener.notice(slug, text)

    def _report_thread(self, name: str) -> None:
        self._session.coverage.add(Gap("other_thread", repr(name)))
        if not self._is_thread_reported:
            self._is_thread_reported = True
            text = (
                f"an optimizer steps in thread {name!r}, which is not observed: only the thread "
                "that began the capture is"
            )
            self._session.report(ProblemLine(f"sonde: {text}", slug="other-thread"))
            self.listener.not_observed("other-thread", text)

    def _module_ran_elsewhere(self, name: str) -> None:
        self._session.coverage.add(Gap("other_thread", repr(name)))

    # -------------------------------------------------------------------- end

    def _close(self) -> None:
        if os.getpid() != self._pid:
            return
        is_broken = self._switch.state is ObservationState.BROKEN
        with self._guard:
            self._steps.close()
            if not is_broken and not self._is_thread_reported:
                self._endless.close()
        self._switch.close()
        self._compiler.stop()
        self._compiler.report()
        with self._guard:
            self.observer.close()
        self._session.close()
        for action in self._at_close:
            with self._guard:
                action()

    def _failed(self, error: Exception) -> None:
        """Report that observation failed, once, and switch it off; the training goes on.

        An exception of the program is raised again, and the running step is dropped, since Sonde's
        code has not finished what it was doing. The step is dropped, too, if the program's own
        recursion leaves no room for Sonde's functions.
        """
        if hidden_interruption(error) is not None:
            self._drop_step("a signal handler of the program raised while Sonde worked")
            raise_interruption(error)
        if self._switch.state is ObservationState.BROKEN:
            return
        if isinstance(error, RecursionError):
            self._drop_step("the program's recursion is near Python's limit")
            return
        self._switch.break_down()
        trace = traceback.extract_tb(error.__traceback__)
        place = f" ({os.path.basename(trace[-1].filename)}:{trace[-1].lineno})" if trace else ""
        what = f"{type(error).__name__}: {error}"
        self._session.coverage.add(Gap("observation_failed", what, self._session.step))
        text = f"observation failed and is switched off, training goes on: {what}{place}"
        self._session.report(ProblemLine(f"sonde: {text}", slug="capture-failed"))
        self.listener.not_observed("capture-failed", text)
        logger.debug("%s", "".join(traceback.format_exception(error)))
        self._session.switch_off()
        self.observer.is_suspended = True
        self._compiler.stop()
        # From here on writes to memory that pending files will be written from go unnoticed.
        self.observer.loans.notify_all_holds()

    def _drop_step(self, reason: str) -> None:
        """Observe no more ops of the running step, whose state may be incomplete."""
        if self._switch.state is ObservationState.BROKEN or os.getpid() != self._pid:
            return
        self.observer.interrupt()
        self._session.coverage.add(Gap("step_dropped", reason, self._session.step))
        if not self._is_drop_reported:
            self._is_drop_reported = True
            text = (
                f"sonde: step {self._session.step} is not observed to its end: {reason}; this may "
                "happen in later steps too"
            )
            self._session.report(ProblemLine(text, slug="step-dropped"))


def ignore_warning_about_hooks(undo: ExitStack) -> None:
    """Silence the warning of a compiled module about hooks on all modules: they are Sonde's."""
    before = list(warnings.filters)
    warnings.filterwarnings(
        "ignore", r"Using `torch\.compile\(module\)` when there are global hooks"
    )
    (added,) = [each for each in warnings.filters if not any(each is old for old in before)]
    if added in before:  # Torch's warning is silenced already, by a capture around this one.
        return

    def remove() -> None:
        kept = [each for each in warnings.filters if each is not added]
        if len(kept) != len(warnings.filters):
            cast(list[Any], warnings.filters)[:] = kept

    undo.callback(remove)


private.hide_from_compiler(TorchAdapter._failed)
_LIVE: WeakTable[TorchAdapter, None] = WeakTable()


def _after_fork_in_child() -> None:
    for adapter in list(_LIVE):
        adapter.abandon_in_child()
        _LIVE.discard(adapter)


os.register_at_fork(after_in_child=_after_fork_in_child)
