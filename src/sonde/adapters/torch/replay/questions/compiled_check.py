"""Checks what the compiler makes of the networks of a captured step."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import torch

from sonde.adapters.torch.compile_check.agreement import CompileVerdict
from sonde.adapters.torch.compile_check.check import CheckDoneError, CompileCheck
from sonde.adapters.torch.replay.execution import execute
from sonde.adapters.torch.replay.questions.step_replay import StepReplay, check_ran
from sonde.replay.errors import ReplayError


def check_compiled(replaying: StepReplay, say: Callable[[str], None]) -> CompileVerdict:
    """The verdict of ``sonde compile-check`` on the step, with its networks compiled."""
    check = CompileCheck(0, continues=False, say=say)
    with check.attached():
        record = replaying.record("compiled")
        done = execute(record)
        check_ran(done, replaying.step)
        parameters = [each for call in record.calls for each in call.module.parameters()]
        optimizer = record.optimizer or torch.optim.SGD(parameters, lr=0.0)
        with suppress(CheckDoneError):
            optimizer.step()
    if check.verdict is None:
        raise ReplayError(
            "nothing was compiled: the step has no backward pass through a network that "
            "torch.compile can compile",
            slug="compile-check-no-step",
        )
    return replace(check.verdict, step=replaying.step.manifest.step)
