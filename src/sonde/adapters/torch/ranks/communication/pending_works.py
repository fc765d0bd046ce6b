"""Asynchronous collectives: what the program has begun and waits for later."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist

from sonde.adapters.torch import private
from sonde.core.patching import wrap
from sonde.core.weak_table import WeakTable


@dataclass(slots=True, eq=False)
class UnfinishedCollectives:
    """The asynchronous reductions of the running step, on CPUs: elsewhere one that the program has
    waited for may still run, in order, on the device. Used from the training thread."""

    _works: list[tuple[Any, str]] = field(default_factory=list)

    def add(self, work: Any, tensor: Any, line: str) -> None:
        if isinstance(tensor, torch.Tensor) and tensor.device.type == "cpu" and work is not None:
            self._works.append((work, line))

    def take(self) -> tuple[str, ...]:
        """The lines of those that have not ended; forgets all."""
        works, self._works = self._works, []
        return tuple(dict.fromkeys(line for work, line in works if not work.is_completed()))


@dataclass(slots=True, eq=False)
class AwaitedWorks:
    """Calls an action when the program has waited for a work. ``shield`` takes its failures."""

    shield: Any
    _actions: WeakTable[Any, list[Callable[[], None]]] = field(default_factory=WeakTable)

    def install(self, undo: ExitStack) -> None:
        patch = wrap(dist.Work, "wait", self._waiting, undo)
        private.hide_from_compiler(patch.replacement)

    def add(self, work: Any, action: Callable[[], None]) -> None:
        """Call ``action`` once, after the first ``work.wait()``."""
        if isinstance(work, dist.Work):
            self._actions[work] = [action]

    def _waiting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(work, *args, **kwargs)
            actions = self._actions.get(work)
            if actions:
                action = actions.pop()
                with self.shield:
                    action()
            return result

        return wait
