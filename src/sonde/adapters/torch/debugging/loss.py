"""Observes the loss of a step: the scalars that ``backward`` was called on."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import torch

from sonde.adapters.torch import private
from sonde.adapters.torch.backward_calls import watch_backward
from sonde.adapters.torch.eager.naming.scope_stack import running
from sonde.adapters.torch.eager.step_inputs import storage_key
from sonde.adapters.torch.tensors.unusual_layouts import is_pending, local_part
from sonde.core.patching import wrap

MOST_ROOTS = 1000
"""Losses of one step that are kept until it ends; when there are more, they are added up."""


class LossWatch:
    """Adds up the scalars that ``backward`` is called on, in the thread that made it.

    Several in one step are the parts of one loss (gradients are accumulated), so their sum is
    taken. A loss that a GradScaler scaled counts unscaled. Of the losses that an optimizer computes
    while it steps (the closure of LBFGS) the first counts, which is what its ``step`` returns.
    """

    def __init__(self) -> None:
        self._begins: Callable[[], None] = lambda: None
        self._failed: Callable[[Exception], None] = lambda error: None
        self._roots: list[torch.Tensor | None] = []
        self._sum: float | None = 0.0
        # Calls since an optimizer began its step; None outside of one.
        self._inside: int | None = None
        self._optimizer: torch.optim.Optimizer | None = None
        # Storages of scaled losses, with the losses. Tensors must not be referenced weakly: see
        # ``eager/tensor_places``.
        self._scaled: dict[int, tuple[weakref.ref[torch.UntypedStorage], torch.Tensor]] = {}

    def install(
        self, begins: Callable[[], None], failed: Callable[[Exception], None], undo: ExitStack
    ) -> None:
        """Observe until ``undo`` is closed. ``begins`` is called before each backward pass except
        those of an optimizer's closure, ``failed`` with the exception of a backward pass."""

        self._begins, self._failed = begins, failed
        watch_backward(self, undo)
        scale = wrap(torch.amp.GradScaler, "scale", self._watched_scale, undo)
        private.hide_from_compiler(LossWatch._note, scale.replacement)

    def backward_begins(self, tensors: Any, options: dict[str, Any]) -> None:
        if self._inside is not None and not any(
            each is self._optimizer for each in running(sys._getframe(1))
        ):
            self.optimizer_left()  # It raised.
        if self._inside is None:  # Inside an optimizer's step weights are being changed.
            self._begins()
        self._note(tensors)

    def backward_ended(self, error: Exception | None) -> None:
        if error is not None:
            self._failed(error)

    def optimizer_begins(self, optimizer: torch.optim.Optimizer) -> None:
        """``optimizer`` is about to step."""
        self._inside, self._optimizer = 0, optimizer

    def optimizer_left(self) -> bool:
        """Whether ``backward`` was called while it stepped."""
        called, self._inside, self._optimizer = bool(self._inside), None, None
        return called

    def take(self) -> float | None:
        """The loss since the last call; None if there was none, or if it is not known: a
        distributed loss whose exchange the program has not waited for, or that is a part."""
        self._scaled.clear()
        if not self._roots:
            return None
        self._add_up()
        found, self._sum = self._sum, 0.0
        return found

    def forget(self) -> None:
        """Forget the loss since the last call, without reading it."""
        self._scaled.clear()
        self._roots.clear()
        self._sum = 0.0

    def keep_few(self) -> None:
        """Bound the number of kept losses: a step may have any number of backward passes."""
        if len(self._roots) >= MOST_ROOTS:
            self._add_up()
            living = {key: each for key, each in self._scaled.items() if each[0]() is not None}
            self._scaled = living

    def _add_up(self) -> None:
        roots, self._roots = self._roots, []
        with private.unobserved():
            values = [self._sum, *map(_number, roots)]
        known = [each for each in values if each is not None]
        self._sum = sum(known) if len(known) == len(values) else None

    def _note(self, tensors: Any) -> None:
        if self._inside is not None:
            self._inside += 1
            if self._inside > 1:
                return
        found: Sequence[Any] = tensors if isinstance(tensors, (list, tuple)) else (tensors,)
        with private.unobserved():
            for tensor in found:
                if not isinstance(tensor, torch.Tensor):
                    continue
                if tensor.numel() == 1 and not tensor.is_complex():
                    known = self._scaled.get(storage_key(tensor))
                    plain = tensor if known is None or known[0]() is None else known[1]
                    self._roots.append(_kept(plain))

    def _watched_scale(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def scale(this: Any, outputs: Any) -> Any:
            result = original(this, outputs)
            if isinstance(outputs, torch.Tensor) and isinstance(result, torch.Tensor):
                with private.unobserved():
                    storage = weakref.ref(result.untyped_storage())
                    self._scaled[storage_key(result)] = (storage, outputs.detach())
            return result

        return scale


def _kept(loss: torch.Tensor) -> torch.Tensor | None:
    """The value of ``loss``, without its graph; None if this rank has a part of it only. Of the
    result of an asynchronous collective that itself: a copy would not notice that it is there."""
    if not all(each.is_replicate() for each in getattr(loss, "placements", ())):
        return None
    part = local_part(loss)
    if is_pending(part):
        return part if part.grad_fn is None else None
    return part.detach()


def _number(loss: torch.Tensor | None) -> float | None:
    """The value of a loss; None if this rank does not have it. Nothing is exchanged or awaited."""
    return None if loss is None or is_pending(loss) else float(local_part(loss))
