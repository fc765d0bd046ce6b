"""``sonde diagnose``: runs a program and says why its training fails."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from sonde.cli.script import needing_torch, run_program
from sonde.cli.script_command import ScriptCommand, program_arguments
from sonde.core.errors import UsageError
from sonde.core.settings import nearest
from sonde.diagnose.catalogue import diagnose as judge
from sonde.diagnose.catalogue import rules
from sonde.diagnose.document import as_document, as_lines

if TYPE_CHECKING:
    from sonde.adapters.torch.diagnosis.collector import Collector
    from sonde.core.finding import Finding

FOUND = 1

EPILOG = """\b
Examples:
  sonde diagnose train.py --epochs 1                 the whole training
  sonde diagnose --steps 200 train.py                the first 200 steps
  sonde diagnose --json train.py                     the findings as JSON
  sonde diagnose --ignore class-imbalance train.py   without one rule

\b
Exit codes: 0 nothing established or supported; 1 a finding that is; 2 wrong use. A program that
fails ends as it would without Sonde.
"""


@click.command("diagnose", cls=ScriptCommand, epilog=EPILOG)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the findings as JSON; the output of the script goes to standard error.",
)
@click.option(
    "--steps",
    type=click.IntRange(1),
    default=None,
    help="End the training after this many steps; a step ends with an optimizer's step().",
)
@click.option(
    "--ignore",
    "ignored",
    metavar="KIND",
    multiple=True,
    help="Do not report findings of this kind. May be repeated.",
)
@program_arguments
def diagnose(**given: Any) -> Callable[[], BaseException | None]:
    """Run an unmodified script, collect evidence, and say why its training fails.

    Reports at most five findings, causes first: what is wrong, where, since which step, the
    numbers, and what to change. The results of the script stay the same, bit for bit.
    """
    run = _DiagnosedRun(**given)
    for kind in run.ignored:
        if kind not in rules():
            hint = nearest(kind, list(rules()), "docs/diagnosis.md lists the kinds")
            raise UsageError(f"--ignore: {kind!r} is not a kind of finding{hint}", slug="usage")
    return run.execute


@dataclass(slots=True)
class _DiagnosedRun:
    """The options of the command line, and the collector once the program is running."""

    as_json: bool
    steps: int | None
    ignored: tuple[str, ...]
    module: str | None
    program: tuple[str, ...]
    collector: Collector | None = None

    def execute(self) -> BaseException | None:
        """Run the program; returns the exception that ends this process."""
        outcome = run_program(self.module, self.program, self._attach)
        if self.collector is None:
            return outcome
        return self._judged(self.collector, outcome)

    @contextmanager
    def _attach(self) -> Iterator[None]:
        with needing_torch("PyTorch is not installed, so there is nothing to diagnose"):
            from sonde.adapters.torch.diagnosis.collector import Collector
        self.collector = Collector(self.steps)
        # Output of the program must not appear between the lines of the JSON.
        output: AbstractContextManager[object] = (
            redirect_stdout(sys.stderr) if self.as_json else nullcontext()
        )
        with self.collector.attached(), output:
            yield

    def _judged(self, collector: Collector, outcome: BaseException | None) -> BaseException | None:
        from sonde.adapters.torch.diagnosis.collector import StepsDoneError

        evidence = collector.finish()
        if isinstance(outcome, StepsDoneError):
            outcome = None
        if not collector.reports:
            return outcome
        findings = judge(evidence, self.ignored)
        self._print(findings, evidence.steps)
        is_clean = isinstance(outcome, SystemExit) and not outcome.code
        if outcome is not None and not is_clean:
            return outcome
        if any(each.status != "hypothesis" for each in findings):
            return SystemExit(FOUND)
        return outcome

    def _print(self, findings: list[Finding], steps: int) -> None:
        if self.as_json:
            print(json.dumps(as_document(findings), indent=2, allow_nan=False))
        else:
            print("\n".join(as_lines(findings, steps)))
        sys.stdout.flush()
