"""``sonde diagnose``: runs a program and says why its training fails."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import click

from sonde.cli.diagnosed_program import (
    DiagnosedProgram,
    DiagnosisWords,
    diagnosis_command_options,
)
from sonde.cli.json_output import json_option
from sonde.cli.reference_run import reference_run
from sonde.cli.script import run_program
from sonde.cli.script_command import ScriptCommand, program_arguments

EPILOG = """\b
Examples:
  sonde diagnose train.py --epochs 1                 the whole training
  sonde diagnose --steps 200 train.py                the first 200 steps
  sonde diagnose --until-finding train.py            until something is found
  sonde diagnose --json train.py                     the findings as JSON
  sonde diagnose --html report.html train.py         also as a page
  sonde diagnose --against reference_dump train.py   and what differs from a reference
  sonde diagnose --ignore class-imbalance train.py   without one rule

\b
Exit codes: 0 nothing established or supported; 1 a finding that is; 2 wrong use. A program that
fails ends as it would without Sonde.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnoseWords(DiagnosisWords):
    """The command line as parsed by click."""

    as_json: bool
    steps: int | None
    against: str | None
    module: str | None
    program: tuple[str, ...]


@click.command("diagnose", cls=ScriptCommand, epilog=EPILOG)
@json_option
@click.option(
    "--steps",
    type=click.IntRange(1),
    default=None,
    help="End the training after this many steps; a step ends with an optimizer's step().",
)
@click.option(
    "--against",
    metavar="DUMP",
    help="Also compare with the dump of a training that works ('sonde run --dump-to DIR "
    "--dump-steps 0-1'), and name the settings that differ: arguments, initial weights, decay.",
)
@diagnosis_command_options
@program_arguments
def diagnose(**given: Any) -> Callable[[], BaseException | None]:
    """Run an unmodified script, collect evidence, and say why its training fails.

    Reports at most five findings, causes first: what is wrong, where, since which step, the
    numbers, and what to change. A finding that is established is printed as soon as it is. The
    results of the script stay the same, bit for bit.
    """
    words = DiagnoseWords(**given)
    options = words.requested_diagnosis(steps=words.steps)
    reference = None if words.against is None else reference_run(words.against)
    diagnosed = DiagnosedProgram(options, words.as_json, reference)

    def execute() -> BaseException | None:
        start = diagnosed.around(nullcontext if reference is None else reference.start)
        return diagnosed.ended(run_program(words.module, words.program, start))

    return execute
