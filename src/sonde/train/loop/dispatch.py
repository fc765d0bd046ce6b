"""Calls the hooks of a list of callbacks, in order, and names the callback that failed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import Any

from sonde.core.callback import Callback, RunContext
from sonde.core.errors import UsageError

Callbacks = Callback | Sequence[Callback] | None

MOMENTS = ("begin", "epoch_begin", "step_begin", "step_end", "epoch_end", "end")


def callback_list(*groups: Callbacks) -> list[Callback]:
    """One list from the arguments of users: None, one callback, or several."""
    found: list[Callback] = []
    for group in groups:
        if group is None:
            continue
        for callback in group if isinstance(group, Iterable) else [group]:
            if not isinstance(callback, Callback):
                is_class = isinstance(callback, type) and issubclass(callback, Callback)
                advice = (
                    f"make an object of it, {callback.__name__}()"
                    if is_class
                    else "derive its class from sonde.train.Callback"
                )
                raise UsageError(f"{callback!r} is not a callback: {advice}", slug="not-a-callback")
            found.append(callback)
    return found


class Dispatcher:
    """The callbacks of one run, training or evaluation (``phase`` is "train" or "eval").

    Entering and leaving it enters and leaves each callback. Only the hooks that a callback
    overrides are called.
    """

    def __init__(self, callbacks: Sequence[Callback], phase: str, run_context: RunContext) -> None:
        self.callbacks = list(callbacks)
        self._run_context = run_context
        self._stack = ExitStack()
        self._hooks = {
            moment: _hooks_of(self.callbacks, moment, f"on_{phase}_{moment}") for moment in MOMENTS
        }

    def __enter__(self) -> Dispatcher:
        try:
            for callback in self.callbacks:
                self._stack.enter_context(callback)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def call(self, moment: str) -> None:
        """Call every callback's hook for ``moment``; an error gets a note naming the callback."""
        for name, hook in self._hooks[moment]:
            try:
                hook(self._run_context)
            except Exception as error:
                _annotate(error, name, self._run_context)
                raise


def _hooks_of(
    callbacks: Sequence[Callback], moment: str, name: str
) -> list[tuple[str, Callable[[RunContext], Any]]]:
    return [
        (f"{type(callback).__name__}.{name}", getattr(callback, name))
        for callback in callbacks
        if _overrides(callback, name) or _overrides(callback, moment)
    ]


def _overrides(callback: Callback, name: str) -> bool:
    return name in vars(callback) or getattr(type(callback), name) is not getattr(Callback, name)


def _annotate(error: Exception, name: str, run_context: RunContext) -> None:
    arguments = run_context.original_args()
    where = ", ".join(
        f"{word} {arguments[key]}"
        for word, key in (("epoch", "cur_epoch_num"), ("step", "cur_step_num"))
        if arguments.get(key)
    )
    note = f"raised by callback {name}" + (f" ({where})" if where else "")
    if hasattr(error, "add_note"):
        error.add_note(note)
    else:  # Python 3.10 has no notes
        logging.getLogger("sonde.train").error("%s: %s: %s", note, type(error).__name__, error)
