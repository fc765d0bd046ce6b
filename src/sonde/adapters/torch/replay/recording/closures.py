"""Follows the closures by which optimizers compute their gradients themselves."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

_WATCHED = "sonde_is_watched"


def watch_closures(
    begins: Callable[[torch.optim.Optimizer], None],
    returned: Callable[[torch.optim.Optimizer], None],
    undo: ExitStack,
) -> None:
    """Call ``begins`` and ``returned`` around each call of a closure that an optimizer's ``step``
    was given, in the thread that calls this function, until ``undo`` is closed.

    When a closure has returned, the gradients are those of the weights that the optimizer has then:
    LBFGS calls its closure several times and changes the weights between. An optimizer that hands
    its closure on, to the ``step`` of a base class or of another optimizer, is called back once.
    """
    thread = threading.get_ident()

    def before(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> Any:
        closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
        if not callable(closure) or threading.get_ident() != thread or hasattr(closure, _WATCHED):
            return None

        @functools.wraps(closure)
        def watched(*given: Any, **named: Any) -> Any:
            begins(optimizer)
            result = closure(*given, **named)
            returned(optimizer)
            return result

        setattr(watched, _WATCHED, True)
        if "closure" in kwargs:
            return args, {**kwargs, "closure": watched}
        return (args[0], watched, *args[2:]), kwargs

    undo.callback(register_optimizer_step_pre_hook(before).remove)
