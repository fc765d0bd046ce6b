"""Takes the networks of a captured step from a program that runs up to their first call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook

from sonde.adapters.torch.replay.networks.single_rank import as_single_rank
from sonde.adapters.torch.replay.networks.sources import fits
from sonde.adapters.torch.replay.storage.captured_step import CapturedStep
from sonde.adapters.torch.replay.storage.wrappers import unwrapped


class SetupDone(BaseException):
    """Raised in the program when its networks are known, to end it."""


class SetupRun:
    """Watches a program until it calls the networks of a step, and ends it then.

    A network is recognised by the names of its parameters. ``found`` has those that were called.
    """

    def __init__(self, step: CapturedStep) -> None:
        self._is_of_ranks = step.manifest.averaged_over > 1
        self._wanted = [each for each in step.manifest.modules if each.parameters]
        self.found: list[nn.Module] = []

    @contextmanager
    def attached(self) -> Iterator[None]:
        with as_single_rank() if self._is_of_ranks else nullcontext():
            handle = register_module_forward_pre_hook(self._called)
            try:
                yield
            finally:
                handle.remove()

    def _called(self, module: nn.Module, _: Any) -> None:
        inner, _names = unwrapped(module)
        for stored in self._wanted:
            if fits(inner, stored):
                self._wanted.remove(stored)
                self.found.append(inner)
                break
        if not self._wanted:
            raise SetupDone
