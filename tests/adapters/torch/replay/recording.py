"""Trainings in which every step is recorded and executed again before its optimizer steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from sonde.adapters.torch.eager.step_end import StepHooks
from sonde.adapters.torch.replay.execution import Execution, execute
from sonde.adapters.torch.replay.recorder import StepRecorder
from sonde.adapters.torch.replay.step_record import StepRecord


@dataclass(repr=False)
class Recorded:
    """The result of each replay; ``errors`` of Sonde's own code."""

    recorder: StepRecorder | None = None
    executions: list[Execution] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)

    @property
    def reasons(self) -> set[str]:
        return {each.kind for done in self.executions for each in done.reasons}


@contextmanager
def recording(
    use: Callable[[StepRecord, StepRecorder, Recorded], None] | None = None,
) -> Iterator[Recorded]:
    """Record the block; call ``use`` (None: execute again) before each step of an optimizer."""
    found = Recorded()

    def closure_returned(optimizer: torch.optim.Optimizer) -> None:
        (use or again)(recorder.take(len(found.executions), optimizer), recorder, found)

    recorder = StepRecorder(found.errors.append, closure_returned=closure_returned)
    found.recorder = recorder

    def began(optimizer: torch.optim.Optimizer) -> None:
        recorder.optimizer_begins(optimizer, has_closure=hooks.closure is not None)
        if hooks.closure is None:
            step = len(found.executions)
            (use or again)(recorder.take(step, optimizer), recorder, found)

    hooks = StepHooks(began, lambda optimizer: None, recorder.step_ended, lambda name: None)
    with ExitStack() as undo:
        hooks.install(undo)
        recorder.install(undo)
        yield found


def again(record: StepRecord, recorder: StepRecorder, found: Recorded) -> None:
    with recorder.replaying():
        found.executions.append(execute(record))


def bare_and_recorded(
    train: Callable[[], Any],
    use: Callable[[StepRecord, StepRecorder, Recorded], None] | None = None,
) -> tuple[Any, Any, Recorded]:
    """What ``train`` returns without Sonde, and recorded and executed again in every step."""
    torch.manual_seed(0)
    np.random.seed(0)
    bare = train()
    torch.manual_seed(0)
    np.random.seed(0)
    with recording(use) as found:
        seen = train()
    return bare, seen, found
