"""Putting a command's Python program under Sonde's overflow watch, whatever wraps it.

``python train.py`` becomes ``python -m sonde run --overflow --dump-to DIR train.py``. Where the
command is no Python at all (``sh run.sh``), a directory before all others in ``PATH`` has a
``python`` that does the same to every script it is asked to run.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sonde.tune.trials.command import Launch

_PYTHON = re.compile(r"python(\d+(\.\d+)*)?")
_LAUNCHERS = ("torchrun",)
_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")


def watch(launch: Launch, dump: Path, shims: Path) -> Launch:
    """The same launch with its Python program watched; ``shims`` is a directory to be made."""
    words = watched_words(launch.words, dump)
    if words is not None:
        return replace(launch, words=tuple(words))
    path = os.pathsep.join((str(make_shims(shims, dump)), os.environ.get("PATH", os.defpath)))
    return replace(launch, environment={**launch.environment, "PATH": path})


def watched_words(words: Sequence[str], dump: Path) -> list[str] | None:
    """The command with the watch in it; None if no Python program is to be seen."""
    watcher = ["-m", "sonde", "run", "--overflow", "--dump-to", str(dump)]
    for index, word in enumerate(words):
        name = os.path.basename(word)
        if _PYTHON.fullmatch(name):
            place = _program(words, index + 1)
            if place is None:
                return None
            return [*words[:place], *watcher, *words[place:]]
        if name in _LAUNCHERS:
            scripts = [i for i in range(index, len(words)) if words[i].endswith(".py")]
            modules = [i for i in range(index, len(words)) if words[i] == "-m"]
            first = min([*scripts, *modules], default=None)
            return None if first is None else [*words[:first], *watcher, *words[first:]]
        if word.endswith(".py") and os.access(word, os.X_OK):
            return [*words[:index], sys.executable, *watcher, *words[index:]]
    return None


def _program(words: Sequence[str], index: int) -> int | None:
    """Where the script, or ``-m``, of a Python command stands; None for ``-c`` and the like."""
    while index < len(words):
        word = words[index]
        if word == "-m" or not word.startswith("-"):
            is_launcher = word == "-m" and words[index + 1 : index + 2] == ["torch.distributed.run"]
            return _launched(words, index + 2) if is_launcher else index
        if word in ("-c", "-"):
            return None
        index += 2 if word in _WITH_VALUE else 1
    return None


def _launched(words: Sequence[str], index: int) -> int | None:
    return next((i for i in range(index, len(words)) if words[i].endswith(".py")), None)


def make_shims(directory: Path, dump: Path) -> Path:
    """A directory with a ``python``, ``python3`` and ``torchrun`` that watch what they run."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in ("python", "python3", *_LAUNCHERS):
        real = shutil.which(name)
        if real is None:
            continue
        ours = (sys.executable, "-m", "sonde.tune.trials.overflow_command", str(dump), real)
        shim = directory / name
        shim.write_text(f'#!/bin/sh\nexec {shlex.join(ours)} "$@"\n')
        shim.chmod(0o755)
    return directory


def _exec_watched(dump: str, command: Sequence[str]) -> None:
    words = watched_words(command, Path(dump)) or list(command)
    os.execv(words[0], words)


if __name__ == "__main__":
    _exec_watched(sys.argv[1], sys.argv[2:])
