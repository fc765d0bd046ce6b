"""Switches observation on and off: the hooks on modules and the dispatch mode."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils.hooks import RemovableHandle

from sonde.adapters.torch import private
from sonde.adapters.torch.eager.dispatch_mode import Observer
from sonde.adapters.torch.eager.optimizer_skip import OptimizerSkip
from sonde.adapters.torch.guard import FailureGuard
from sonde.adapters.torch.mode_stack import pop_mode_below, push_mode_below
from sonde.adapters.torch.tensors.lending import watch_exposure
from sonde.core.patching import Removals


class ObservationState(Enum):
    """Whether the running step is observed.

    STARTING and STOPPING are pending changes. Autograd's engine and the wrapper of a compiled
    function restore, when they return, the dispatch modes that were active when they began (see
    ``private.keeps_modes``). A step may end inside one of them; a mode entered or left there would
    be lost, so the switch waits for the next module or compiled function that is called outside.
    """

    OFF = "off"
    STARTING = "starting"
    ON = "on"
    STOPPING = "stopping"
    BROKEN = "broken"
    """Observation failed, or this is a forked child: nothing is observed any more."""


class ObservationSwitch:
    """Installs and removes what observes ops. Used from the training thread only.

    ``failed`` gets exceptions of Sonde's own code in the hooks on modules; ``module_begins`` is
    called when a module begins outside of any other, ``elsewhere`` with the names of other threads
    in which modules run. Only the switch itself changes ``state``. A signal handler of the program
    may interrupt any method: ``start`` and ``stop`` repair at the next step what is incomplete.
    """

    def __init__(
        self,
        observer: Observer,
        skip: OptimizerSkip,
        failed: Callable[[Exception], None],
        module_begins: Callable[[], None],
        elsewhere: Callable[[str], None],
    ) -> None:
        self._observer = observer
        self._skip = skip
        self._failed = failed
        self._report_module = module_begins
        self._elsewhere = elsewhere
        self._guard = FailureGuard(failed)
        self._thread = threading.get_ident()
        self.state = ObservationState.OFF
        self._installed = Removals()
        self._hooks: list[RemovableHandle] = []
        self._has_mode = False

    @property
    def is_observing(self) -> bool:
        """Whether the running step is to be observed."""
        return self.state in (ObservationState.STARTING, ObservationState.ON)

    @property
    def _is_pending(self) -> bool:
        return self.state in (ObservationState.STARTING, ObservationState.STOPPING)

    def start(self) -> None:
        """Observe from here on. The switch must be OFF or STOPPING."""
        if self.state is ObservationState.STOPPING:  # Everything is still installed.
            self.state = ObservationState.ON
        else:
            self._installed.callback(private.remove_hooks_of, self)
            self._hooks = [
                register_module_forward_pre_hook(self._module_begins),
                register_module_forward_hook(self._module_ended, always_call=True),
            ]
            self.state = ObservationState.STARTING
            if not private.keeps_modes():
                self._complete()
        self._observer.scopes.restart()

    def stop(self) -> None:
        """Observe nothing from here on. The switch must be STARTING or ON."""
        self._skip.forget()
        self._observer.loans.stop_watching()
        # Memory may be filled by ops that are not observed.
        self._observer.inputs.leaves.unfilled.clear()
        is_removed = self._uninstall()
        self.state = ObservationState.OFF if is_removed else ObservationState.STOPPING

    def break_down(self) -> None:
        """Observation failed: observe nothing any more; `clean_up` removes what is installed."""
        self.state = ObservationState.BROKEN

    def clean_up(self) -> None:
        """Remove what a broken observation has installed, unless that must wait."""
        self._skip.forget()
        self._observer.loans.stop_watching()
        self._uninstall()

    def abandon(self) -> None:
        """Remove everything at once, in a forked child."""
        self.state = ObservationState.BROKEN
        self._close()

    def close(self) -> None:
        """Remove everything at once, at the end of the capture."""
        with self._guard:
            self._skip.forget()
        with self._guard:
            self._close()
        if self.state is not ObservationState.BROKEN:
            self.state = ObservationState.OFF

    def complete_at_entry(self) -> None:
        """Complete a pending change: a compiled function is about to be called."""
        if self._is_pending and threading.get_ident() == self._thread:
            with self._guard:
                if not private.keeps_modes(at_entry=True):
                    self._complete()

    @contextmanager
    def hidden_hooks(self) -> Iterator[None]:
        """Remove Sonde's hooks on modules in this block: the compiler must not trace them."""
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

    def _complete(self) -> None:
        """Make the pending change."""
        if self.state is ObservationState.STARTING:
            self.state = ObservationState.ON
            observer = self._observer
            watch_exposure(
                observer.loans, observer.inputs.allocated_again, self._failed, self._installed
            )
            self._installed.callback(pop_mode_below, self._observer)
            self._has_mode = True
            push_mode_below(self._observer)
        else:
            self._close()
            self.state = ObservationState.OFF

    def _uninstall(self) -> bool:
        """Remove hooks and mode; False, and nothing is done, where the mode must not be left."""
        if self._has_mode and private.keeps_modes():
            return False
        self._close()
        return True

    def _close(self) -> None:
        self._installed.close()
        self._has_mode = False

    # ---------------------------------------------------------- hooks on modules

    def _module_begins(self, module: nn.Module, *_: Any) -> None:
        if threading.get_ident() != self._thread:
            self._elsewhere(threading.current_thread().name)
            return
        with self._guard, private.without_torch_functions():
            if self.state is ObservationState.BROKEN:
                self.clean_up()
                return
            if self._is_pending and not private.keeps_modes():
                self._complete()
            if self.is_observing and not self._observer.scopes.is_inside_module:
                self._report_module()
            if self.is_observing:
                self._skip.forget()
                self._observer.scopes.enter_module(module)

    def _module_ended(self, module: nn.Module, _: Any, result: Any, *__: Any) -> None:
        if threading.get_ident() == self._thread and self.is_observing:
            with self._guard, private.without_torch_functions():
                self._observer.module_ended(module, result)


private.hide_from_compiler(ObservationSwitch._module_begins, ObservationSwitch._module_ended)
