"""Runs the scripts of ``--run`` of ``sonde compare`` and ``sonde loss``, each into a dump.

A script of PyTorch runs under ``sonde run``; one of MindSpore in the environment that ``--python``
names, with MindSpore's own dump.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sonde.capture.options import config_from_options
from sonde.cli.launchers import LaunchedScript, split_launcher
from sonde.cli.mindspore_python import (
    MindSporePython,
    find_mindspore,
    needs_mindspore,
    refuse_without_mindspore,
)
from sonde.cli.mindspore_run import dump_environment
from sonde.cli.progress import progress_bar
from sonde.compare.options import CompareError
from sonde.core.errors import DumpError, UsageError
from sonde.core.files.atomic_file import start_file
from sonde.core.selection import StepSet, parse_steps
from sonde.core.text.number_text import count_text
from sonde.dump.reader import Dump
from sonde.logs import say

DEFAULT_STEPS = "0-1"
_NET = "run"
_SHOWN_LINES = 30
_LOOK_SECONDS = 0.2
_GRACE_SECONDS = 20.0


def refuse_scripts(command: str, sides: Iterable[Path]) -> None:
    """Raise UsageError if a side is a script: it is not read but run, by ``--run``."""
    for path in sides:
        if path.suffix == ".py" and path.is_file():
            raise UsageError(
                f"{path} is a script; to run it: sonde {command} --run {shlex.quote(str(path))}",
                slug="usage",
            )


def run_into(
    command: str,
    directory: Path,
    steps: StepSet,
    *,
    python: MindSporePython | None = None,
    options: Sequence[str] = (),
) -> Path:
    """Run a script, dump its steps, and stop it after the last of them.

    ``python`` is the interpreter of a script that trains with MindSpore. ``options`` of ``sonde
    run`` are for those of PyTorch. CompareError if the script fails before it finished a step; the
    end of its output is printed.
    """
    script = launched_script(command)
    shutil.rmtree(directory, ignore_errors=True)  # From an earlier comparison.
    directory.mkdir(parents=True)
    log = directory / "output.txt"
    dump = directory / "dump"
    # MindSpore gives a step its directory when it begins: it is over when the next one begins.
    dumped = steps if python is None else _and_next(steps)
    with start_file(log) as output, _command(script, dump, dumped, python, options) as start:
        # In its own process group, so that child processes of the script are stopped with it.
        process = subprocess.Popen(
            start.words,
            env=dict(start.environment),
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            was_stopped = _wait(process, dump, dumped, script.ranks)
        finally:
            if process.poll() is None:
                _stop(process)
    if python is not None:
        _remove_steps_after(dump, steps)
    if not _steps_in(dump):
        _raise_failure(command, process.returncode, log)
    found = len(Dump(dump).ranks)
    if script.ranks is not None and found != script.ranks:
        say(f"{command!r} names {count_text(script.ranks, 'rank')}, but {found} trained")
    if process.returncode and not was_stopped:
        ended = f"{command!r} ended with code {process.returncode}"
        say(f"{ended}; its finished steps are compared")
    return dump


@dataclass(frozen=True, slots=True)
class _Start:
    """A command line and the environment to run it in."""

    words: Sequence[str]
    environment: Mapping[str, str]


@contextmanager
def _command(
    script: LaunchedScript,
    dump: Path,
    steps: StepSet,
    python: MindSporePython | None,
    options: Sequence[str],
) -> Iterator[_Start]:
    """The command that runs a script and dumps ``steps`` to ``dump``."""
    if python is not None:
        config = config_from_options(dump, {}, steps=str(steps), net_name=_NET)
        with dump_environment(config) as environment:
            yield _Start([python.executable, *script.words], environment)
        return
    ours = ["sonde", "run", "--dump-to", str(dump), "--dump-steps", str(steps)]
    ours += ["--net-name", _NET, *options]
    yield _Start(script.command(ours), os.environ)


def _and_next(steps: StepSet) -> StepSet:
    """The steps and the one after the last of them."""
    return steps if steps.last is None else parse_steps(f"{steps}|{steps.last + 1}")


def _remove_steps_after(dump: Path, steps: StepSet) -> None:
    """Remove the step that was dumped to see the end of the one before; it may be incomplete."""
    try:
        found = Dump(dump).step_dirs()
    except DumpError:
        return
    for each in found:
        if each.step not in steps:
            shutil.rmtree(each.path, ignore_errors=True)


def launched_script(command: str) -> LaunchedScript:
    """The script and its arguments, without a leading ``python``, and what launches it."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"--run {command!r}: {error}", slug="usage") from None
    if words and Path(words[0]).name.startswith("python"):
        words = words[1:]
    script = split_launcher(words, command)
    words = list(script.words)
    if not words:
        raise UsageError("--run needs a script and its arguments, in quotes", slug="usage")
    if words[0] == "-m" and len(words) == 1:
        raise UsageError(f"--run {command!r}: -m needs a module", slug="usage")
    if not words[0].startswith("-") and not Path(words[0]).exists():
        raise UsageError(f"--run {command!r}: file {words[0]} does not exist", slug="usage")
    return script


def pythons_of(runs: Sequence[str], given: str | None) -> list[MindSporePython | None]:
    """For each script of ``--run`` the interpreter with MindSpore, None for those of PyTorch.

    ``given`` is the value of ``--python``. UsageError if a script needs MindSpore and there is
    none, or if no script needs it.
    """
    words = [launched_script(command).words for command in runs]
    programs = [(each[1], each[2:]) if each[0] == "-m" else (None, each) for each in words]
    wanted = [needs_mindspore(module, program) for module, program in programs]
    if given is None:
        for command, is_wanted in zip(runs, wanted, strict=True):
            if is_wanted:
                refuse_without_mindspore(command)
    elif not any(wanted):
        if len(runs) != 1:
            raise UsageError(
                "--python is for scripts that import mindspore, and none of --run does",
                slug="usage",
            )
        wanted = [True]  # It may import MindSpore in a way that reading it does not show.
    if not any(wanted):
        return [None] * len(runs)
    python = find_mindspore(given or sys.executable)
    return [python if is_wanted else None for is_wanted in wanted]


def _wait(process: subprocess.Popen[bytes], dump: Path, steps: StepSet, ranks: int | None) -> bool:
    """Wait for the end of the script, or stop it after the last step of all ranks; whether it was
    stopped."""
    last = steps.last
    total = sum(stop - start + 1 for start, stop in steps.ranges)
    with progress_bar("dumping") as show:
        while process.poll() is None:
            found = _steps_in(dump, ranks or 1)
            show("steps", len(found), total)
            if last is not None and last in found:
                _stop(process)
                return True
            time.sleep(_LOOK_SECONDS)
    return False


def _steps_in(dump: Path, ranks: int = 1) -> tuple[int, ...]:
    """The steps that all ranks have finished: those whose directories and graphs have their final
    names; none while there are fewer than ``ranks`` ranks."""
    try:
        found = Dump(dump)
    except DumpError:
        return ()
    if len(found.ranks) < ranks:
        return ()
    finished = [
        {each.step for each in found.step_dirs(rank=rank) if each.graph_id in found.graph_ids(rank)}
        for rank in found.ranks
    ]
    return tuple(sorted(set.intersection(*finished)))


def _stop(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        try:
            process.wait(_GRACE_SECONDS)
            return
        except subprocess.TimeoutExpired:
            continue


def _raise_failure(command: str, code: int, log: Path) -> None:
    for line in log.read_text("utf-8", "replace").splitlines()[-_SHOWN_LINES:]:
        print(line, file=sys.stderr)
    raise CompareError(
        f"{command!r} ended with code {code} and left no finished step to compare; a step ends "
        "with an optimizer's step(), and MindSpore dumps in graph mode only",
        slug="compare-run",
    )
