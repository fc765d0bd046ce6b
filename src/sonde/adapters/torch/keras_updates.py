"""Makes the updates of Keras's optimizers steps of an optimizer of torch.

Keras 3 on the torch backend changes the weights itself: no optimizer of torch steps, and torch
calls no hook. While something follows steps, each update of a Keras optimizer is the ``step()`` of
a `KerasUpdate` with the same parameters, so that whatever follows torch's optimizers follows
Keras's. Keras may be imported at any time: it is looked for before each backward pass.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import torch

from sonde.adapters.torch import private
from sonde.core.interruption import pass_on
from sonde.core.patching import call_before, wrap
from sonde.core.text.problem_line import ProblemLine
from sonde.core.weak_table import WeakTable
from sonde.logs import say

_OPTIMIZERS: Final = "keras.src.optimizers.base_optimizer"


class KerasUpdate(torch.optim.Optimizer):
    """The updates of one Keras optimizer. Gradients are in ``grad`` of the parameters while it
    steps: those that Keras was given, which it has divided by the scale of the loss."""

    def __init__(self, parameters: Sequence[torch.Tensor]) -> None:
        super().__init__(parameters, {"lr": 0.0})
        self.update: Callable[[], Any] | None = None

    def has(self, parameters: Sequence[torch.Tensor]) -> bool:
        """Whether these are its parameters."""
        own = self.param_groups[0]["params"]
        return [id(each) for each in own] == [id(each) for each in parameters]

    def step(self, closure: Any = None) -> Any:
        return None if self.update is None else self.update()


def follow_keras(undo: ExitStack) -> None:
    """Make updates of Keras's optimizers steps of an optimizer of torch until ``undo`` is
    closed."""
    _FOLLOWING.begin()
    undo.callback(_FOLLOWING.end)


class _Following:
    """The patches of torch and Keras, which all that follow steps share."""

    def __init__(self) -> None:
        self._followers = 0
        self._undo = ExitStack()
        self._is_patched = False
        self._updates: WeakTable[Any, KerasUpdate] = WeakTable()
        self._is_broken = False
        self._compiled_apply: Callable[..., Any] | None = None

    def begin(self) -> None:
        self._followers += 1
        if self._followers == 1:
            for name in ("backward", "grad"):
                patch = call_before(torch.autograd, name, self._look_for_keras, self._undo)
                private.hide_from_compiler(patch.replacement)
            self._look_for_keras()

    def end(self) -> None:
        self._followers -= 1
        if not self._followers:
            self._is_patched = self._is_broken = False
            self._compiled_apply = None
            self._undo.close()

    def _look_for_keras(self, *_: Any, **__: Any) -> None:
        if self._is_patched or not self._followers or _OPTIMIZERS not in sys.modules:
            return
        kind = getattr(sys.modules[_OPTIMIZERS], "BaseOptimizer", None)
        backend = getattr(sys.modules.get("keras.src.backend"), "backend", None)
        if kind is None or backend is None:
            return  # It is being imported.
        self._is_patched = True
        if backend() == "torch":
            patch = wrap(kind, "apply", self._stepping, self._undo)
            private.hide_from_compiler(patch.replacement)

    def _stepping(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def apply(this: Any, grads: Any, trainable_variables: Any = None) -> Any:
            run = self._compiled(original) if _is_called_by_compiled_code() else original
            if self._is_broken or private.is_tracing():
                return run(this, grads, trainable_variables)
            given = list(grads)
            variables = None if trainable_variables is None else list(trainable_variables)
            update = self._update_of(this, variables)
            if update is None or update.update is not None:
                return run(this, given, variables)

            def change_weights() -> Any:
                if is_given and not _has_gradients(update):
                    # The gradients were withheld: the update is skipped, and counts.
                    return this._iterations.assign_add(1)
                return run(this, given, variables)

            with _gradients_in(_values(this, variables), given):
                is_given = _has_gradients(update)
                update.update = change_weights
                try:
                    return update.step()
                finally:
                    update.update = None

        return apply

    def _compiled(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """The function as the compiler would have compiled it, had it seen the call: code that is
        not compiled computes other last bits."""
        if self._compiled_apply is None:
            self._compiled_apply = torch.compile(original)
        return self._compiled_apply

    def _update_of(self, this: Any, variables: Sequence[Any] | None) -> KerasUpdate | None:
        """The stand-in for a Keras optimizer that is about to change weights; None if it only
        accumulates gradients, or nothing is known about it."""
        try:
            with private.unobserved(), torch.no_grad():
                every = this.gradient_accumulation_steps
                if every and (int(this._iterations) + 1) % every:
                    return None
                values = _values(this, variables)
                known = self._updates.get(this)
                if known is None or not known.has(values):
                    kind = type(type(this).__name__, (KerasUpdate,), {})
                    known = self._updates[this] = kind(values)
                rate = this.learning_rate  # A variable of Keras, or what a schedule computed.
                known.param_groups[0]["lr"] = getattr(rate, "value", rate).detach().clone()
                return known
        except Exception as error:
            pass_on(error)
            self._is_broken = True
            text = f"updates of Keras end no steps: {type(error).__name__}: {error}"
            say(ProblemLine(text, slug="keras-not-followed"))
            return None


_FOLLOWING: Final = _Following()


def _is_called_by_compiled_code() -> bool:
    """Whether torch.compile compiles the function that calls Keras's optimizer: its code goes on in
    a function of this name after the backward pass."""
    frame = sys._getframe(3)  # Of the caller of the replacement of ``apply``.
    return frame.f_code.co_name.startswith("torch_dynamo_resume_in_")


def _has_gradients(update: KerasUpdate) -> bool:
    return any(each.grad is not None for each in update.param_groups[0]["params"])


def _values(optimizer: Any, variables: Sequence[Any] | None) -> list[torch.Tensor]:
    """The tensors of the weights."""
    return [each.value for each in variables or optimizer._trainable_variables]


@contextmanager
def _gradients_in(values: Sequence[torch.Tensor], gradients: Sequence[Any]) -> Iterator[None]:
    """Put the gradients that Keras was given where optimizers of torch have them. Keras takes them
    as arguments, and may have unscaled them, or computed them with ``torch.autograd.grad``."""
    with ExitStack() as undo:
        for value, gradient in zip(values, gradients, strict=False):
            if not isinstance(gradient, torch.Tensor) or value.grad is gradient:
                continue
            is_like = gradient.shape == value.shape and gradient.dtype == value.dtype
            if is_like and gradient.device == value.device:
                undo.callback(setattr, value, "grad", value.grad)
                value.grad = gradient
        yield
