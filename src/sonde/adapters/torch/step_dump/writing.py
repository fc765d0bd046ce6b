"""Copies captured steps and writes them in a thread, while the training goes on."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from sonde.adapters.torch import private
from sonde.adapters.torch.replay.recording.gradients import optimizer_parameters
from sonde.adapters.torch.replay.storage import write_collected
from sonde.adapters.torch.replay.storage.collected_step import CollectedStep
from sonde.adapters.torch.replay.storage.copy_memory import CopyMemory
from sonde.core.threads.worker_thread import Job, WorkerThread
from sonde.replay.layout import StepPlace


class StepWriting:
    """Writes steps to ``directory``. Its methods are called by the training thread.

    There is one copy of a step at a time: the training waits if the disk is slower. A thread writes
    it, and then copies weights and the optimizer's state of the next step while forward and
    backward run, if the program has one optimizer.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._thread = WorkerThread("sonde-steps")
        self._memory = CopyMemory()
        self._writing: Job[StepPlace] | None = None
        self._copying: Job[None] | None = None
        self._optimizers: list[torch.optim.Optimizer] = []

    def step_begins(self) -> None:
        """A step that will be written has begun: from here on its weights stay as they are."""
        if len(self._optimizers) == 1:
            tensors = _tensors_of(self._optimizers[0])
            self._copying = self._thread.submit(partial(self._memory.copy_early, tensors))

    def optimizer_begins(self, optimizer: torch.optim.Optimizer) -> None:
        if not any(each is optimizer for each in self._optimizers):
            self._optimizers.append(optimizer)

    def write(self, collected: CollectedStep) -> None:
        """Copy a step, and let the thread write it. Call `wait` before."""
        copy = collected.copied(self._memory)
        self._writing = self._thread.submit(partial(write_collected, copy, self._directory))

    def wait(self) -> None:
        """Wait until the step before is on the disk, and the early copies of this one are made;
        raises why they are not."""
        writing, self._writing = self._writing, None
        copying, self._copying = self._copying, None
        if writing is not None:
            writing.result()
        if copying is not None:
            copying.result()

    def close(self) -> None:
        self._thread.close()


def _tensors_of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """The weights that ``optimizer`` changes, and the tensors of its state."""
    with private.unobserved():
        weights = [each.detach() for each in optimizer_parameters(optimizer)]
        state = [each for values in optimizer.state.values() for each in _values(values)]
    return [*weights, *(each for each in state if isinstance(each, torch.Tensor) and each.dim())]


def _values(state: Any) -> Iterable[Any]:
    return state.values() if isinstance(state, dict) else ()
