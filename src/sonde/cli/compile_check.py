"""``sonde compile-check``: checks the results of compiled code against float64."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from sonde.capture.options import parse_size
from sonde.cli.compile_check_text import as_document, as_lines
from sonde.cli.json_output import json_option, print_document
from sonde.cli.script import needing_torch, run_program
from sonde.cli.script_command import ScriptCommand, program_arguments
from sonde.core.errors import CaptureError
from sonde.core.text.number_text import count_text
from sonde.logs import say

if TYPE_CHECKING:
    from sonde.adapters.torch.compile_check.check import CompileCheck

AGREES, DEVIATES, FAILED = 0, 1, 2

EPILOG = """\b
Examples:
  sonde compile-check train.py --epochs 1      the first step
  sonde compile-check --step 100 train.py      a later step
  sonde compile-check --json train.py          the result as JSON

\b
Exit codes: 0 compiled code agrees; 1 it deviates; 2 the check could not run.
"""


@click.command("compile-check", cls=ScriptCommand, epilog=EPILOG)
@click.option(
    "--step",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="The step to check; a step ends with an optimizer's step().",
)
@json_option
@click.option(
    "--continue",
    "continues",
    is_flag=True,
    help="After the check, run the program to its end, with its own compilation.",
)
@click.option(
    "--memory",
    metavar="SIZE",
    default="2G",
    show_default=True,
    help="The memory limit for values of ops, such as 512M. Graphs that need more are compiled in "
    "several parts.",
)
@program_arguments
def compile_check(**given: Any) -> Callable[[], BaseException | None]:
    """Check one training step of an unmodified script against float64.

    The step runs in four ways from the same state and batch: eager, the compiler's graph op by op,
    compiled, and in float64. Outputs, gradients and updated weights are compared, and the first op
    whose error is larger than its dtype explains is reported. If the script does not call
    torch.compile, its model is compiled for the check.
    """
    run = _CheckRun(**given)
    parse_size(run.memory)  # Report an invalid size before the program runs.
    return run.execute


@dataclass(slots=True)
class _CheckRun:
    """The options of the command line, and the check once the program is running."""

    step: int
    as_json: bool
    continues: bool
    memory: str
    module: str | None
    program: tuple[str, ...]
    check: CompileCheck | None = None

    def execute(self) -> BaseException | None:
        """Run the program to the end of the step; returns the exception that ends this process."""
        outcome = run_program(self.module, self.program, self._attach)
        if self.check is None:
            return outcome
        return self._judged(self.check, outcome)

    @contextmanager
    def _attach(self) -> Iterator[None]:
        with needing_torch("PyTorch is not installed, so there is nothing to check"):
            from sonde.adapters.torch.compile_check.check import CompileCheck
        self.check = CompileCheck(
            self.step, continues=self.continues, say=say, budget=parse_size(self.memory)
        )
        with self.check.attached():
            yield

    def _judged(self, check: CompileCheck, outcome: BaseException | None) -> BaseException | None:
        from sonde.adapters.torch.compile_check.check import CheckDoneError

        verdict = check.verdict
        if verdict is None:
            if outcome is not None and not isinstance(outcome, SystemExit):
                traceback.print_exception(outcome)
            raise CaptureError(
                f"the program ended after {count_text(check.steps_seen, 'step')}, without a "
                f"backward through compiled code in step {self.step}; choose an earlier "
                "--step, or find out why it ended",
                slug="compile-check-no-step",
            )
        if self.as_json:
            print_document(as_document(verdict))
        else:
            print("\n".join(as_lines(verdict)))
        sys.stdout.flush()
        if outcome is not None and not isinstance(outcome, CheckDoneError):
            return outcome
        if not verdict.agrees:
            return SystemExit(DEVIATES)
        return None if verdict.is_complete else SystemExit(FAILED)
