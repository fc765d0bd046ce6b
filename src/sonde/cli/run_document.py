"""The JSON of ``sonde run``: how the program ended, what was dumped, kept and found."""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sonde.cli.json_output import print_document
from sonde.cli.script_command import program_words
from sonde.cli.script_run import ScriptRun
from sonde.cli.show_json import dump_json
from sonde.cli.show_steps import guard_json, is_guarded
from sonde.core.errors import DumpError
from sonde.core.finding import with_lines
from sonde.core.observation_variables import is_first_rank
from sonde.dump.reader import Dump

if TYPE_CHECKING:
    from sonde.cli.mindspore_run import MindSporeRun


def reported(run: ScriptRun | MindSporeRun) -> BaseException | None:
    """Run the program to its end and print the document; of several ranks, the first prints it."""
    process = os.getpid()
    outcome = run.execute()
    if os.getpid() == process and is_first_rank(os.environ):
        print_document(run_document(run, outcome))
    return outcome


def run_document(run: ScriptRun | MindSporeRun, outcome: BaseException | None) -> dict[str, Any]:
    """The document; ``outcome`` is the exception that ended the program."""
    if isinstance(run, ScriptRun):
        words = program_words(run.module, run.program)
        guarded = None if run.guard is None else run.guard.directory
        diagnosis = None if run.diagnosed is None else run.diagnosed.diagnosis
    else:
        words, guarded, diagnosis = list(run.words), None, None
    return {
        "program": words,
        "exit_code": _exit_code(outcome),
        "exception": _exception(outcome),
        "dump": None if run.config is None else _dumped(run.config.path),
        "guard": None if guarded is None else _guarded(Path(guarded)),
        "findings": None
        if diagnosis is None
        else [with_lines(each) for each in diagnosis.findings],
    }


def _dumped(path: Path) -> dict[str, Any]:
    """What ``sonde show`` prints of the dump; only its path if nothing was dumped."""
    try:
        return dump_json(Dump(path), None)
    except DumpError:
        return {"path": str(path), "steps": []}


def _guarded(path: Path) -> dict[str, Any]:
    """The steps that the guard has kept, without the signals of all steps."""
    found = guard_json(path, None) if is_guarded(path) else {"steps": []}
    return {"path": str(path), "steps": found["steps"]}


def _exit_code(outcome: BaseException | None) -> int:
    """The exit code that Python gives a program that ends with this exception."""
    if outcome is None:
        return 0
    if isinstance(outcome, KeyboardInterrupt):
        return 130
    if not isinstance(outcome, SystemExit):
        return 1
    if outcome.code is None:
        return 0
    return outcome.code if isinstance(outcome.code, int) else 1


def _exception(outcome: BaseException | None) -> dict[str, Any] | None:
    """What the program raised, and where: the frames of its traceback, the outermost first."""
    if outcome is None or isinstance(outcome, SystemExit):
        return None
    frames = traceback.extract_tb(outcome.__traceback__)
    return {
        "type": type(outcome).__name__,
        "message": str(outcome),
        "frames": [
            {"file": each.filename, "line": each.lineno, "function": each.name, "code": each.line}
            for each in frames
        ],
    }
