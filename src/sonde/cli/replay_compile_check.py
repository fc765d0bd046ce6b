"""``sonde replay --compile-check``: checks compiled code on a captured step."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from sonde.cli.compile_check import AGREES, DEVIATES, FAILED
from sonde.cli.compile_check_text import as_lines
from sonde.logs import say
from sonde.replay.errors import ReplayError

if TYPE_CHECKING:
    from sonde.adapters.torch.replay.questions import StepReplay


def check_compiled(replaying: StepReplay) -> int:
    """Execute the step with its networks compiled under the check; prints the verdict."""
    import torch

    from sonde.adapters.torch.compile_check.check import CheckDoneError, CompileCheck
    from sonde.adapters.torch.replay.execution import execute
    from sonde.adapters.torch.replay.questions import check_ran

    check = CompileCheck(0, continues=False, say=say)
    with check.attached():
        record = replaying.record("compiled")
        done = execute(record)
        check_ran(done, replaying.step)
        parameters = [each for call in record.calls for each in call.module.parameters()]
        optimizer = record.optimizer or torch.optim.SGD(parameters, lr=0.0)
        with suppress(CheckDoneError):
            optimizer.step()
    verdict = check.verdict
    if verdict is None:
        raise ReplayError(
            "nothing was compiled: the step has no backward pass through a network that "
            "torch.compile can compile",
            slug="compile-check-no-step",
        )
    verdict = replace(verdict, step=replaying.step.manifest.step)
    print("\n".join(as_lines(verdict)))
    if not verdict.agrees:
        return DEVIATES
    return AGREES if verdict.is_complete else FAILED
