"""Observes the processes that a program starts with ``torch.multiprocessing`` to train in.

``torch.multiprocessing.spawn(train, nprocs=2)`` runs ``train`` in processes of its own. Each of
them is captured with the configuration of its parent, as the rank that is its number, and dumps to
its own ``rank_N``. Workers of a DataLoader are started in another way and not observed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch.multiprocessing
import torch.multiprocessing.reductions as reductions

from sonde.adapters.torch import private
from sonde.core.observation_variables import launched_rank
from sonde.core.patching import wrap
from sonde.debugger.settings import DebuggerOptions

Attach = Callable[..., AbstractContextManager[Any]]


@dataclass(frozen=True, slots=True)
class ObservedFunction:
    """A function that is observed in the child process that runs it; its first argument is the
    number of the process. ``attach`` is as in `observed_children`; ``count`` is the number of
    processes that run the function."""

    attach: Attach
    function: Callable[..., Any]
    debugger: DebuggerOptions | None
    count: int

    def is_observed_by(self, attach: Attach) -> bool:
        """Whether ``attach`` observes the function already: torch's functions call each other."""
        inner = self.function
        return attach is self.attach or (
            isinstance(inner, ObservedFunction) and inner.is_observed_by(attach)
        )

    def __call__(self, number: int, *args: Any) -> Any:
        launched = launched_rank(os.environ)
        rank = number if launched is None else launched
        has_others = self.count > 1
        with self.attach(rank=rank, has_other_ranks=has_others, debugger=self.debugger):
            return self.function(number, *args)


@contextmanager
def observed_children(
    attach: Attach, debugger: DebuggerOptions | None, hand_over: Callable[[], None]
) -> Iterator[None]:
    """Observe the processes that ``torch.multiprocessing`` starts in this block.

    ``attach`` begins the capture in a child, given its rank and debugger; it is pickled, so it
    must be found by name. ``hand_over`` is called before the children start.
    """
    # ``torch.multiprocessing.spawn`` is the function, which hides the module of that name.
    module: Any = sys.modules["torch.multiprocessing.spawn"]

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def start_processes(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            if not (isinstance(fn, ObservedFunction) and fn.is_observed_by(attach)):
                count = kwargs.get("nprocs", args[1] if len(args) > 1 else 1)
                count = count if isinstance(count, int) else 0
                fn = ObservedFunction(attach, fn, _for_children(debugger, count), count)
                hand_over()
            return original(fn, *args, **kwargs)

        return start_processes

    with ExitStack() as undo:
        wrap(module, "start_processes", make, undo)
        wrap(torch.multiprocessing, "start_processes", make, undo)
        yield


def _for_children(debugger: DebuggerOptions | None, count: int) -> DebuggerOptions | None:
    """The debugger options of ``count`` children: their number, and the script they run."""
    if debugger is None:
        return None
    return replace(
        debugger,
        world_size=debugger.world_size or count,
        script=debugger.script or sys.argv[0],
        arguments=debugger.arguments if debugger.script else tuple(sys.argv[1:]),
    )


def hide_received_tensors(undo: ExitStack) -> None:
    """Hide tensors that come from another process from dispatch modes, until ``undo`` is closed.

    A DataLoader with workers gets its batches as handles of shared memory, and torch makes tensors
    of them in the training's own thread, in whichever step they happen to arrive. If that were
    observed, the ops would be in another place in every run. Hidden, the batches are inputs.
    """

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def rebuild_tensor(*args: Any) -> Any:
            with private.unobserved():
                return original(*args)

        return rebuild_tensor

    wrap(reductions, "rebuild_tensor", make, undo)
