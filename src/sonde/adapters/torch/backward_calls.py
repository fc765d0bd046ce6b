"""Follows the calls of ``torch.autograd.backward``, which ``Tensor.backward`` makes, too."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Protocol

import torch

from sonde.adapters.torch import private
from sonde.core.patching import wrap


class BackwardListener(Protocol):
    """Is called around each backward pass of the thread that installed it.

    A pass inside another (activation checkpointing runs one) does not count.
    """

    def backward_begins(self, tensors: Any, options: dict[str, Any]) -> None:
        """``tensors`` are the roots as the program gave them, ``options`` the other arguments."""
        ...

    def backward_ended(self, error: Exception | None) -> None: ...


def plain_backward() -> Callable[..., None]:
    """``torch.autograd.backward`` without its listeners: for a backward pass of Sonde's own."""
    original: Callable[..., None] = inspect.unwrap(torch.autograd.backward)
    return original


_NAMES = ("grad_tensors", "retain_graph", "create_graph", "grad_variables", "inputs")


def watch_backward(listener: BackwardListener, undo: ExitStack) -> None:
    """Call ``listener`` until ``undo`` is closed."""
    thread = threading.get_ident()
    running: list[bool] = []

    def watched(original: Callable[..., Any]) -> Callable[..., Any]:
        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            if running or threading.get_ident() != thread:
                return original(tensors, *args, **kwargs)
            options = {**dict(zip(_NAMES, args, strict=False)), **kwargs}
            running.append(True)
            try:
                with private.without_torch_functions():
                    listener.backward_begins(tensors, options)
                failure: Exception | None = None
                try:
                    return original(tensors, *args, **kwargs)
                except Exception as error:
                    failure = error
                    raise
                finally:
                    with private.without_torch_functions():
                        listener.backward_ended(failure)
            finally:
                running.clear()

        return backward

    patch = wrap(torch.autograd, "backward", watched, undo)
    private.hide_from_compiler(patch.replacement)
