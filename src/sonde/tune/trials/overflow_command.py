"""Changes a command so that its Python program writes an overflow dump.

``python train.py`` becomes ``python -m sonde run --overflow --dump-to DIR train.py``. For a command
that is not Python (``sh run.sh``), a directory is put first in ``PATH`` whose ``python`` does the
same with every script it runs.
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

from sonde.core.files.atomic_file import write_whole
from sonde.tune.trials.command import Launch

_PYTHON = re.compile(r"python(\d+(\.\d+)*)?")
_LAUNCHERS = ("torchrun",)
_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")


def watch(launch: Launch, dump: Path, shims: Path) -> Launch:
    """The launch with its Python program watched; ``shims`` is the directory for `make_shims`."""
    words = watched_words(launch.words, dump)
    if words is not None:
        return replace(launch, words=tuple(words))
    path = os.pathsep.join((str(make_shims(shims, dump)), os.environ.get("PATH", os.defpath)))
    return replace(launch, environment={**launch.environment, "PATH": path})


def watched_words(words: Sequence[str], dump: Path) -> list[str] | None:
    """The command with its Python program watched; None if no program is found in it."""
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
    """The index of the script, or of ``-m``, in a Python command; None for ``-c``."""
    while index < len(words):
        word = words[index]
        if word == "-m" or not word.startswith("-"):
            is_launcher = word == "-m" and words[index + 1 : index + 2] == ["torch.distributed.run"]
            scripts = (i for i in range(index + 2, len(words)) if words[i].endswith(".py"))
            return next(scripts, None) if is_launcher else index
        if word in ("-c", "-"):
            return None
        index += 2 if word in _WITH_VALUE else 1
    return None


def make_shims(directory: Path, dump: Path) -> Path:
    """Create a directory of ``python``, ``python3`` and ``torchrun`` that watch their program."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in ("python", "python3", *_LAUNCHERS):
        real = shutil.which(name)
        if real is None:
            continue
        watched = (sys.executable, "-m", "sonde.tune.trials.overflow_command", str(dump), real)
        shim = directory / name
        write_whole(shim, f'#!/bin/sh\nexec {shlex.join(watched)} "$@"\n')
        shim.chmod(0o755)
    return directory


if __name__ == "__main__":
    command = watched_words(sys.argv[2:], Path(sys.argv[1])) or sys.argv[2:]
    os.execv(command[0], command)
