"""Numbers steps as the training's own logs do: after a resume, and under a framework's trainer.

A run that resumes a training goes on counting where that stopped. How many steps were done is what
a trainer (of transformers or Lightning) or an optimizer of Keras says, or the ``step`` in the state
that an optimizer loads. Their classes are looked up among the modules that the program has
imported. The iterations of an engine of Ignite are no steps if several of them make one; lines name
them.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from operator import attrgetter, index
from typing import Any, Final

import torch

from sonde.adapters.torch import private
from sonde.adapters.torch.guard import FailureGuard
from sonde.adapters.torch.living_objects import calling_objects, living_objects
from sonde.core.interruption import pass_on
from sonde.core.patching import wrap
from sonde.core.running_training import register_first_step, register_step_name
from sonde.core.weak_table import WeakTable

_TRAINERS: Final = (
    # The module of a class Trainer, whose step it is, and the attribute with the steps done. The
    # models of Keras are Trainers; its log has no numbers of steps.
    ("transformers.trainer", "the Trainer's", "state.global_step"),
    ("pytorch_lightning.trainer.trainer", "Lightning's", "global_step"),
    ("lightning.pytorch.trainer.trainer", "Lightning's", "global_step"),
    ("keras.src.trainers.trainer", "", "optimizer.iterations"),
)
_ENGINE: Final = "ignite.engine.engine", "Engine"


@dataclass(slots=True, eq=False)
class StepNumbers:
    """Finds out how many steps were done before this run. Used from the training thread only.

    ``begin_at`` is called with that number while the first step has not begun. ``step`` returns the
    number of the running step. ``failed`` gets exceptions of Sonde's own code.
    """

    _begin_at: Callable[[int], None]
    _step: Callable[[], int]
    _failed: Callable[[Exception], None]
    _thread: int = field(default_factory=threading.get_ident)
    _done: WeakTable[torch.optim.Optimizer, int] = field(default_factory=WeakTable)
    _searches: int = 2
    _whose: str = ""
    _shift: int = 0

    def install(self, undo: ExitStack) -> None:
        """Follow what optimizers load, and what a training loop says, until ``undo`` is closed."""
        patch = wrap(torch.optim.Optimizer, "load_state_dict", self._watched, undo)
        private.hide_from_compiler(patch.replacement)
        undo.callback(register_first_step(self._begin_at))
        undo.callback(register_step_name(self._name))

    def find_trainer(self) -> None:
        """Look for a framework's trainer, when the first module runs or an optimizer steps first;
        begin to count where it does."""
        if not self._searches:
            return
        self._searches -= 1
        found = list(_living_trainers())
        if len(found) > 1:  # Only the one that trains counts, if its method calls this one.
            calling = {id(each) for each in calling_objects(object)}
            found = [each for each in found if id(each[0]) in calling]
        if len(found) != 1:
            return
        self._searches = 0
        _, self._whose, done = found[0]
        if done > self._step():
            self._begin_at(done)
        self._shift = done + 1 - self._step()

    def _name(self, step: int) -> str:
        """What the framework's log calls this step."""
        if self._whose:
            return f" ({self._whose} step {step + self._shift})"
        # A trainer may run evaluators, which are engines, too, inside its own run.
        engine = None
        if step == self._step() and isinstance(kind := _class_of(*_ENGINE), type):
            *_, engine = None, *calling_objects(kind)
        return "" if engine is None else f" (Ignite's iteration {engine.state.iteration})"

    def _watched(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def load_state_dict(this: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> Any:
            result = original(this, *args, **kwargs)
            if threading.get_ident() == self._thread:
                with FailureGuard(self._failed):
                    self._loaded(this)
            return result

        return load_state_dict

    def _loaded(self, optimizer: torch.optim.Optimizer) -> None:
        self._done[optimizer] = _updates_of(optimizer)
        done = sum(self._done.values())  # Each optimizer's update is a step.
        if done:
            self._begin_at(done)


def _updates_of(optimizer: torch.optim.Optimizer) -> int:
    """The updates that an optimizer has made; 0 if its state does not say it (plain SGD)."""
    found = 0.0
    with private.unobserved():
        for state in optimizer.state.values():
            count = state.get("step", 0) if isinstance(state, dict) else 0
            if isinstance(count, (int, float)) or (
                isinstance(count, torch.Tensor) and count.numel() == 1
            ):
                found = max(found, float(count))
    return int(found) if 0 <= found < float("inf") else 0


def _living_trainers() -> Iterator[tuple[Any, str, int]]:
    """Each trainer that exists, whose step it is, and the number of steps done."""
    known = []
    for module, whose, path in _TRAINERS:
        kind = _class_of(module, "Trainer")
        if isinstance(kind, type):
            known.append((kind, whose, attrgetter(path)))
    for kind, whose, read in known:
        for trainer in living_objects(kind):
            try:
                with private.unobserved():
                    done = read(trainer)
                    done = index(getattr(done, "value", done))  # of a variable of Keras
            except Exception as error:  # A trainer that is not set up.
                pass_on(error)
                continue
            if done >= 0:
                yield trainer, whose, done


def _class_of(module: str, name: str) -> Any:
    return getattr(sys.modules.get(module), name, None)
