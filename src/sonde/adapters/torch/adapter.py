"""Observes a torch program for one session: the whole life of a capture."""

from __future__ import annotations

import logging
import os
import threading
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Literal, cast

import torch
from torch import nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.utils.hooks import RemovableHandle

from sonde.adapters.torch import compile_gate, private
from sonde.adapters.torch.companion import Company
from sonde.adapters.torch.compile_gate import CompiledMode
from sonde.adapters.torch.eager import CompiledAwareObserver, Observer
from sonde.adapters.torch.lending import watch_exposure
from sonde.adapters.torch.optimizer_tail import OptimizerTail
from sonde.adapters.torch.scopes import ScopeBook
from sonde.adapters.torch.steps import StepHooks
from sonde.adapters.torch.structure import Structures
from sonde.capture.session import Session
from sonde.core.sink import StepEnd

if TYPE_CHECKING:
    from sonde.adapters.torch.compiled import CompiledGraphs

logger = logging.getLogger("sonde.capture")

StepBy = Literal["optimizer", "manual"]


class TorchAdapter:
    """Makes torch emit op calls for ``session``.

    ``starts_at_once``: the first step begins right away; else with the first op that runs inside a
    module or on a tensor that requires a gradient, so that a script's preparations belong to no
    step. Used from the thread that attaches it, which must be the one that trains. ``company`` is
    told of steps and optimizers, whether ops are observed or not.
    """

    def __init__(
        self,
        session: Session,
        *,
        name: str,
        starts_at_once: bool,
        step_by: StepBy = "optimizer",
        compiled: CompiledMode = "observe",
    ) -> None:
        self._session = session
        self._mode = compile_gate.possible_mode(compiled, session)
        self._last_word = compile_gate.cannot_look_line(compiled, session)
        self._step_by = step_by
        self._scopes = ScopeBook()
        self._structures = Structures(name)
        observer = Observer if self._mode == "eager" else CompiledAwareObserver
        self._observer = observer(
            session, self._scopes, self._structures, self._failed, starts_at_once=starts_at_once
        )
        if self._last_word is not None:
            self._observer.learner.ran_compiled = False
        self._step_hooks = StepHooks(
            self._optimizer_begins, self._optimizer_left, self._step_ended, self._say_thread
        )
        self._tail = OptimizerTail(self._observer, session)
        self._active = ExitStack()
        self._is_active = False
        self._is_switch_due = False
        self._is_broken = False
        self._is_thread_reported = False
        self._pid = os.getpid()
        self._thread = threading.get_ident()
        self._completed = 0
        self._at_close: list[Callable[[], None]] = []
        self.company = Company(session.report)
        self._hooks: list[RemovableHandle] = []
        self._compiled: CompiledGraphs | None = None

    @contextmanager
    def attach(self) -> Iterator[TorchAdapter]:
        """Observe until the block is left, then flush and close the session's sinks."""
        private.require()
        with ExitStack() as undo:
            self._step_hooks.install(undo)
            _ignore_warning_about_hooks(undo)
            compile_gate.on_first_compile(lambda: self._watch_compiler(undo), undo)
            _LIVE.add(self)
            self._begin()
            try:
                yield self
            finally:
                _LIVE.discard(self)
                self._close()

    def end_step(self) -> None:
        """End the running step here (``sonde.step()``)."""
        with self._observer.own_work:
            self._guard(lambda: self._end(complete=True))

    @property
    def step_by(self) -> StepBy:
        return self._step_by

    @property
    def session(self) -> Session:
        return self._session

    def refresh(self) -> None:
        """What is wanted has changed."""
        self._session.refresh()
        self._observer.refresh()

    @property
    def observer(self) -> Observer:
        return self._observer

    @property
    def is_observing(self) -> bool:
        """Whether the ops of the running step are observed."""
        return self._is_active and not self._is_broken

    def at_close(self, action: Callable[[], None]) -> None:
        """Call ``action`` when the session has been closed."""
        self._at_close.append(action)

    def scope_name(self, module: nn.Module | str) -> str | None:
        """The scope of a module, or of the module at a path such as ``encoder.0``, once known."""
        return self._scopes.name_of(module)

    # ----------------------------------------------------------- compiled code

    def _watch_compiler(self, undo: ExitStack) -> None:
        """The program is about to compile something."""
        if self._mode == "eager":
            undo.callback(private.run_uncompiled, False)
            private.run_uncompiled(self._is_active and not self._is_broken)
            return
        from sonde.adapters.torch.compiled import CompiledGraphs

        graphs = CompiledGraphs(
            self._session, self._observer, self._scopes, self._failed, self._mode
        )
        graphs.install(self._hidden_hooks, self._switch_if_due, undo)
        compile_gate.know_watched(undo)
        graphs.is_watching = self._is_active and not self._is_broken
        self._compiled = graphs

    @contextmanager
    def _hidden_hooks(self) -> Iterator[None]:
        """Our hooks on modules are not to be traced, and the program does not mean them."""
        taken: list[tuple[dict[int, Any], dict[int, Any]]] = []
        for hooks in private.module_hooks():
            ours = {handle.id: hooks[handle.id] for handle in self._hooks if handle.id in hooks}
            for number in ours:
                del hooks[number]
            taken.append((hooks, ours))
        try:
            yield
        finally:
            for hooks, ours in taken:
                hooks.update(ours)

    # ------------------------------------------------------------------ steps

    def _begin(self) -> None:
        """Switch observation on or off for the step that starts now."""
        wanted = self._session.wanted(self._session.step) and not self._is_broken
        if wanted and not self._is_active:
            self._activate()
        elif not wanted and self._is_active:
            self._deactivate()
        self._observer.is_asleep = not wanted
        if wanted:
            self._observer.begin_step()
        if self._compiled is not None:
            self._compiled.begin_step(wanted=wanted)
        elif self._mode == "eager":
            private.run_uncompiled(wanted)

    def _end(self, *, complete: bool) -> None:
        if os.getpid() != self._pid:
            return
        observer = self._observer
        if self._is_broken:
            if self._is_active:
                self._deactivate()
            if complete:
                self.company.step_ended()
            return
        if self._is_active:
            if complete:
                self._tail.ends()
            else:
                self._tail.forget()
            last = observer.last
            is_kept = self._session.keeps_step()
            if last.parent is not None or is_kept:
                raisers = observer.raisers if is_kept else ()
                graph = self._structures.graph_at(last, raisers)
                parts = self._structures.parts_at(last) if self._compiled is not None else ()
                self._session.end_step(StepEnd(self._session.step, graph, complete, parts))
            else:
                self._session.skip_step()
            observer.end_step()
        else:
            self._session.skip_step()
        if complete:
            observer.begin_at_once()
            self._completed += 1
            self.company.step_ended()
            self._begin()

    def _optimizer_begins(self, optimizer: torch.optim.Optimizer) -> None:
        with self._observer.own_work:
            if self._is_active:
                self._guard(lambda: self._observer.learner.leaves.know_optimizer(optimizer))
                self._guard(lambda: self._observer.scopes.enter_optimizer(optimizer))
            self.company.optimizer_begins(optimizer, has_closure=self._step_hooks.has_closure)
            if self._is_watching_tail:
                self._guard(lambda: self._tail.begins(optimizer))

    @property
    def _is_watching_tail(self) -> bool:
        return (
            self._step_by == "optimizer"
            and self.is_observing
            and not self._is_switch_due
            and not self._observer.is_asleep
        )

    def _optimizer_left(self, optimizer: torch.optim.Optimizer) -> None:
        with self._observer.own_work:
            if self._is_active:
                self._guard(lambda: self._observer.scopes.leave(optimizer))
            self.company.optimizer_left(optimizer)

    def _step_ended(self) -> None:
        if self._step_by == "optimizer":
            with self._observer.own_work:
                self._guard(lambda: self._end(complete=True))

    def _close(self) -> None:
        if os.getpid() != self._pid:
            return
        self._guard(self._end_tail)
        self._guard(self._tail.forget)
        self._guard(self._active.close)
        self._is_active = False
        if self._compiled is not None:
            self._compiled.is_watching = False
            self._guard(self._compiled.say_tally)
        if self._last_word is not None and self._observer.learner.ran_compiled:
            self._session.report(self._last_word)
        self._guard(self._observer.close)
        self._session.close()
        for action in self._at_close:
            self._guard(action)

    def _end_tail(self) -> None:
        """What ran after the last step: a step of its own if a network ran, else nothing."""
        if not self._is_active:
            return
        if self._session.keeps_step():
            self._end(complete=False)
            return
        if self._observer.last.parent is None:
            return
        default = self._scopes.default
        if self._completed and all(
            record.scope is default for record in self._observer.last.path()
        ):
            self._session.drop_step()
        else:
            self._end(complete=False)

    # ------------------------------------------------------------- on and off

    def _activate(self) -> None:
        self._is_active = True
        if self._is_switch_due:
            self._is_switch_due = False
        else:
            self._hooks = [
                register_module_forward_pre_hook(self._module_begins),
                register_module_forward_hook(self._module_ended, always_call=True),
            ]
            for handle in self._hooks:
                self._active.callback(handle.remove)
            if private.keeps_modes():
                self._is_switch_due = True
            else:
                self._enter_mode()
        self._observer.scopes.restart()

    def _enter_mode(self) -> None:
        watch_exposure(self._observer.loans, self._failed, self._active)
        private.push_mode_below(self._observer)
        self._active.callback(private.pop_mode_below, self._observer)

    def _deactivate(self) -> None:
        self._is_active = False
        self._tail.forget()
        self._observer.loans.stop_watching()
        if self._is_switch_due:
            self._is_switch_due = False
            self._active.close()
        elif private.keeps_modes():
            self._is_switch_due = True
        else:
            self._active.close()

    def _switch_if_due(self) -> None:
        """A compiled function is about to run: the last chance to do what was put off."""
        if self._is_switch_due and threading.get_ident() == self._thread:
            self._guard(self._switch_at_entry)

    def _switch_at_entry(self) -> None:
        if not private.keeps_modes(at_entry=True):
            self._switch()

    def _switch(self) -> None:
        """Make up for a change that had to be put off: see ``private.keeps_modes``."""
        self._is_switch_due = False
        if self._is_active:
            self._enter_mode()
        else:
            self._active.close()

    def _module_begins(self, module: nn.Module, *_: Any) -> None:
        if threading.get_ident() != self._thread:
            return
        with self._observer.own_work:
            try:
                if self._is_switch_due and not private.keeps_modes():
                    self._switch()
                if self._is_active:
                    self._tail.forget()
                    self._observer.scopes.enter_module(module)
            except Exception as error:
                self._failed(error)

    def _module_ended(self, module: nn.Module, *_: Any) -> None:
        if threading.get_ident() != self._thread or not self._is_active:
            return
        with self._observer.own_work:
            try:
                self._observer.scopes.leave(module)
            except Exception as error:
                self._failed(error)

    def _say_thread(self, name: str) -> None:
        if not self._is_thread_reported:
            self._is_thread_reported = True
            self._session.report(
                f"sonde: an optimizer steps in thread {name!r}, which is not observed: only the "
                "thread that began the capture is [other-thread]"
            )

    def _guard(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        """Observation itself failed: say so once, leave the training alone."""
        if self._is_broken:
            return
        self._is_broken = True
        trace = traceback.extract_tb(error.__traceback__)
        place = f" ({os.path.basename(trace[-1].filename)}:{trace[-1].lineno})" if trace else ""
        self._session.report(
            "sonde: observation failed and is switched off, training goes on: "
            f"{type(error).__name__}: {error}{place} [capture-failed]"
        )
        logger.debug("%s", "".join(traceback.format_exception(error)))
        self._session.switch_off()
        self._observer.is_asleep = True
        if self._compiled is not None:
            self._compiled.is_watching = False
        # Nobody watches the memory any more that files are still to be written from.
        self._observer.loans.call_back_all()

    def abandon_in_child(self) -> None:
        """In a forked child: the parent's files and threads are not ours; look at nothing."""
        self._is_broken = True
        self._is_active = False
        self._observer.is_asleep = True
        if self._compiled is not None:
            self._compiled.is_watching = False
        self._active.close()


def _ignore_warning_about_hooks(undo: ExitStack) -> None:
    """A compiled module warns of hooks on all modules: they are ours, and expect that."""
    before = list(warnings.filters)
    warnings.filterwarnings(
        "ignore", r"Using `torch\.compile\(module\)` when there are global hooks"
    )
    (added,) = [each for each in warnings.filters if not any(each is old for old in before)]

    def remove() -> None:
        kept = [each for each in warnings.filters if each is not added]
        if len(kept) != len(warnings.filters):
            cast(list[Any], warnings.filters)[:] = kept

    undo.callback(remove)


private.hide_from_compiler(
    TorchAdapter._module_begins, TorchAdapter._module_ended, TorchAdapter._failed
)
_LIVE: weakref.WeakSet[TorchAdapter] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for adapter in list(_LIVE):
        adapter.abandon_in_child()
    _LIVE.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)
