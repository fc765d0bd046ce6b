"""``sonde repeat``: runs a program twice and finds the first op at which the runs differ."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from sonde.cli.json_output import json_file_option, json_option, write_document
from sonde.cli.own_option import own_option
from sonde.cli.run_deterministic import determinism_options, requested
from sonde.cli.script_command import ScriptCommand, program_arguments, program_words, step_by_option
from sonde.compare.repetition import HASH, Repetition, compare_repetition
from sonde.core.errors import DumpError, UsageError
from sonde.core.files.atomic_file import start_file, write_whole
from sonde.core.finding import Finding
from sonde.core.selection import parse_steps
from sonde.dump.reader import Dump
from sonde.logs import say

_CATEGORIES = ("max", "min", "l2norm", HASH)
_NET = "repeat"
_SHOWN_LINES = 15
_LEFT = "sonde: not removed: "

EPILOG = """\b
Examples:
  sonde repeat train.py --epochs 1                 are two runs the same, bit for bit?
  sonde repeat --steps 0-9 train.py                compare ten steps only
  sonde repeat --deterministic train.py            with randomness removed
  sonde repeat --json -m package.train | jq .first

\b
Exit codes: 0 the runs are equal, 1 they differ, 2 they could not be compared.
"""


@dataclass(frozen=True, slots=True)
class _Run:
    """One finished run of the program."""

    code: int
    output: str
    dump: Path


@click.command(cls=ScriptCommand, epilog=EPILOG)
@click.option("--steps", metavar="STEPS", help="Only these steps, such as '0|5-8'. Default: all.")
@step_by_option
@click.option("--keep", "directory", metavar="DIR", help="Keep the statistics of both runs in DIR.")
@determinism_options
@json_option
@json_file_option
@own_option
@program_arguments
def repeat(
    steps: str | None,
    step_by: str,
    directory: str | None,
    deterministic: bool,
    seed: int | None,
    no_shuffle: bool,
    no_dropout: bool,
    as_json: bool,
    json_file: str | None,
    module: str | None,
    program: tuple[str, ...],
) -> int:
    """Run an unmodified script twice and report the first op at which the runs differ.

    A hash of every input and output of every op is recorded, so a difference of one bit is found
    and classified: the weights, the data, an op that draws random numbers, or an op whose algorithm
    is not deterministic, with its line in your code.
    """
    if module is None and not os.path.exists(program[0]):
        raise UsageError(f"script {program[0]!r} does not exist", slug="program-not-found")
    words = program_words(module, program)
    determinism = requested(deterministic, seed, no_shuffle, no_dropout)
    parse_steps("all" if steps is None else steps)
    with _directory(directory) as place:
        runs, dumps = [], []
        for number in (1, 2):
            say(f"run {number} of 2")
            options = [*(determinism.options() if determinism else ()), "--step-by", step_by]
            runs.append(_run(place / f"run_{number}", steps or "all", options, words))
            dumps.append(_dump(runs[-1]))
        found = compare_repetition(*dumps, is_seeded=determinism is not None)
        document = _document(words, found, runs)
    if not as_json:  # printed first, in case the file cannot be written
        _print(found, runs)
        for what in _left(runs):
            print(f"not removed: {what}")
    write_document(document, as_json=as_json, json_file=json_file)
    return 0 if found.first is None and runs[0].code == runs[1].code else 1


@contextmanager
def _directory(directory: str | None) -> Iterator[Path]:
    """A directory for both runs: that of --keep, or a temporary one."""
    if directory is None:
        with tempfile.TemporaryDirectory(prefix="sonde-repeat-") as temporary:
            yield Path(temporary)
        return
    place = Path(os.path.abspath(directory))
    try:
        place.mkdir(parents=True, exist_ok=True)
        for name in ("run_1", "run_2"):  # from an earlier repetition
            if (place / name).exists():
                shutil.rmtree(place / name)
    except OSError as error:
        raise UsageError(f"--keep {directory}: {error.strerror}", slug="usage") from None
    yield place


def _run(place: Path, steps: str, options: list[str], words: list[str]) -> _Run:
    """Run the program under Sonde in a separate process, and capture its output."""
    place.mkdir(parents=True)
    settings = place / "dump.json"
    write_whole(settings, json.dumps(_settings(place / "dump", steps)))
    log = place / "output.log"
    command = [sys.executable, "-m", "sonde", "run", "--dump", str(settings), *options, *words]
    with start_file(log) as stream:
        code = subprocess.run(
            command, stdout=stream, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
        ).returncode
    return _Run(code, log.read_text("utf-8", "replace"), place / "dump")


def _settings(path: Path, steps: str) -> dict[str, Any]:
    """The dump configuration: statistics with hashes, of every op's inputs and outputs."""
    common = {
        "op_debug_mode": 0,
        "dump_mode": 0,
        "path": str(path),
        "net_name": _NET,
        "iteration": steps,
        "saved_data": "statistic",
        "input_output": 0,
        "kernels": [],
        "support_device": list(range(64)),
        "statistic_category": list(_CATEGORIES),
    }
    return {"common_dump_settings": common, "e2e_dump_settings": {"enable": False}}


def _dump(run: _Run) -> Dump:
    """The dump of a run; DumpError if the run has no finished step."""
    with suppress(DumpError):
        dump = Dump(run.dump)
        if dump.steps():
            return dump
    problem = (
        "no step to compare: the program has no optimizer, or ends before the steps of --steps"
    )
    if run.code:
        last = "\n".join(run.output.splitlines()[-_SHOWN_LINES:])
        problem = f"the program ended with exit code {run.code} before a step was complete:\n{last}"
    raise DumpError(problem, slug="repeat-nothing")


def _printed(run: _Run) -> list[str]:
    """The lines that the program printed, without those of Sonde, which name the dump."""
    return [line for line in run.output.splitlines() if not line.startswith("sonde: ")]


def _left(runs: list[_Run]) -> list[str]:
    """The randomness that ``--deterministic`` could not remove, as reported by the runs."""
    lines = (line for run in runs for line in run.output.splitlines() if line.startswith(_LEFT))
    return list(dict.fromkeys(line.removeprefix(_LEFT) for line in lines))


def _document(words: list[str], found: Repetition, runs: list[_Run]) -> dict[str, Any]:
    first = found.first
    return {
        "program": words,
        "equal": first is None,
        "steps": list(found.steps),
        "tensors": found.tensors,
        "differing": found.differing,
        "exit_codes": [run.code for run in runs],
        "same_output": _printed(runs[0]) == _printed(runs[1]),
        "not_removed": _left(runs),
        "first": None if first is None else _first_json(first),
    }


def _first_json(first: Finding) -> dict[str, Any]:
    source = first.source
    place = ("step", "op", "type", "phase", "slots")
    return {
        "kind": first.rule,
        "status": first.status,
        **{name: first.evidence[name] for name in place},
        "source": None
        if source is None
        else {name: value for name, value in source.fields().items() if name != "function"},
        "told": first.advice,
    }


def _print(found: Repetition, runs: list[_Run]) -> None:
    if runs[0].code or runs[1].code:
        print(f"the program ended with exit codes {runs[0].code} and {runs[1].code}")
    first = found.first
    if first is None:
        print(
            f"equal: {found.tensors:,} tensors in {len(found.steps)} steps are equal in both runs, "
            "bit for bit"
        )
        return
    print(first.message)
    if first.source is not None:
        print(f"    {first.source}  {first.source.code}")
    print(first.advice)
    print(f"{found.differing:,} of {found.tensors:,} tensors differ in {len(found.steps)} steps")
