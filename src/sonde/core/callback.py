"""The interface between a training loop and its callbacks: ``Callback`` and ``RunContext``.

The loop calls the hooks of every callback in the order the callbacks were given. A callback reads
what it needs from ``run_context.original_args()`` and may add to it; it may ask the loop to stop.
No framework is imported: tensors and modules are passed on unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

from sonde.core.settings import nearest


class RunArguments(dict[str, Any]):
    """The arguments of a run (``cb_params``); every entry is an attribute and a key.

    Callbacks may add entries, which later hooks and other callbacks then see. An entry whose name
    is a method of ``dict`` can be reached as key only, so setting it as attribute is refused.
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(self._unknown(name)) from None

    def __setattr__(self, name: str, value: Any) -> None:
        if hasattr(dict, name):
            raise AttributeError(f"{name!r} is a method of every dict: write cb_params[{name!r}]")
        self[name] = value

    def __delattr__(self, name: str) -> None:
        if name not in self:
            raise AttributeError(self._unknown(name))
        del self[name]

    def _unknown(self, name: str) -> str:
        return f"cb_params has no {name!r}{nearest(name, sorted(self), 'it has')}"


class RunContext:
    """The argument of every hook: gives the run's arguments and its state, and can stop it.

    ``within_fit`` is true while an evaluation runs as part of ``fit``; there the old hook names
    (``begin``, ``step_end``, ...) mean training only.
    """

    __slots__ = ("_arguments", "_stop_requested", "_training_state", "within_fit")

    def __init__(
        self,
        original_args: RunArguments,
        *,
        training_state: Callable[[], dict[str, Any]] | None = None,
        within_fit: bool = False,
    ) -> None:
        if not isinstance(original_args, RunArguments):
            original_args = RunArguments(original_args)
        self._arguments = original_args
        self._stop_requested = False
        self._training_state = training_state
        self.within_fit = within_fit

    def original_args(self) -> RunArguments:
        """The arguments of this run (not a copy: what a callback adds stays)."""
        return self._arguments

    def request_stop(self) -> None:
        """Ask the loop to end after the current step; the end hooks of epoch and run follow."""
        self._stop_requested = True

    def get_stop_requested(self) -> bool:
        return self._stop_requested

    def training_state(self) -> dict[str, Any]:
        """Everything a later run needs to continue from here; empty in an evaluation."""
        return {} if self._training_state is None else self._training_state()


class Callback:
    """Base of callbacks; override the hooks you need.

    ``on_train_*`` hooks run in training, ``on_eval_*`` hooks in evaluation. The short names
    (``begin``, ``epoch_begin``, ``step_begin``, ``step_end``, ``epoch_end``, ``end``) serve both,
    except that an evaluation inside ``fit`` does not call them. A callback is also a context
    manager: it is entered before the first hook and left after the last one, also when the run
    fails, so resources are released there.
    """

    def __enter__(self) -> Callback:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Release what the callback holds; nothing by default."""

    def state_dict(self) -> dict[str, Any]:
        """The state to save (numbers, text, lists, dicts, tensors); empty by default."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a saved state; called after ``on_train_begin`` of a resumed run."""

    def begin(self, run_context: RunContext) -> None:
        """Called once before the first step."""

    def epoch_begin(self, run_context: RunContext) -> None:
        """Called before each epoch."""

    def step_begin(self, run_context: RunContext) -> None:
        """Called before each step; the batch is known, nothing has been computed."""

    def step_end(self, run_context: RunContext) -> None:
        """Called after each step; ``net_outputs`` is the loss, gradients are still there."""

    def epoch_end(self, run_context: RunContext) -> None:
        """Called after each epoch."""

    def end(self, run_context: RunContext) -> None:
        """Called once after the last step of a run that did not fail."""

    def on_train_begin(self, run_context: RunContext) -> None:
        self.begin(run_context)

    def on_train_epoch_begin(self, run_context: RunContext) -> None:
        self.epoch_begin(run_context)

    def on_train_step_begin(self, run_context: RunContext) -> None:
        self.step_begin(run_context)

    def on_train_step_end(self, run_context: RunContext) -> None:
        self.step_end(run_context)

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        self.epoch_end(run_context)

    def on_train_end(self, run_context: RunContext) -> None:
        self.end(run_context)

    def on_eval_begin(self, run_context: RunContext) -> None:
        if not run_context.within_fit:
            self.begin(run_context)

    def on_eval_epoch_begin(self, run_context: RunContext) -> None:
        if not run_context.within_fit:
            self.epoch_begin(run_context)

    def on_eval_step_begin(self, run_context: RunContext) -> None:
        if not run_context.within_fit:
            self.step_begin(run_context)

    def on_eval_step_end(self, run_context: RunContext) -> None:
        if not run_context.within_fit:
            self.step_end(run_context)

    def on_eval_epoch_end(self, run_context: RunContext) -> None:
        if not run_context.within_fit:
            self.epoch_end(run_context)

    def on_eval_end(self, run_context: RunContext) -> None:
        if not run_context.within_fit:
            self.end(run_context)
