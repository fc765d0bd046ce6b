"""The Python environment of a script that trains with MindSpore, and how such a script is known."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import click

from sonde.core.errors import UsageError
from sonde.core.text.problem_line import ProblemLine

F = TypeVar("F", bound=Callable[..., Any])

_NAME = "mindspore"
_IMPORT = re.compile(r"^[ \t]*(?:from|import)[ \t]+([A-Za-z_][\w.]*)", re.MULTILINE)
_START_SECONDS = 120.0
_MOST_FILES = 50
_MOST_BYTES = 2 << 20
# The directory of the caller is not a place for modules of the environment.
_PROBE = """
import sys
sys.path[:1] = []
import importlib.util, json
from importlib import metadata
found = importlib.util.find_spec("mindspore") is not None
try:
    version = metadata.version("mindspore")
except metadata.PackageNotFoundError:
    version = ""
print(json.dumps({"found": found, "version": version}))
"""


@dataclass(frozen=True, slots=True)
class MindSporePython:
    """An interpreter that can import MindSpore."""

    executable: str
    version: str


def python_option(command: F) -> F:
    """Add ``--python ENV``."""
    return click.option(
        "--python",
        metavar="ENV",
        help="For a script that trains with MindSpore: the environment that has it, or its python. "
        "The script runs there, with MindSpore's own dump.",
    )(command)


def find_mindspore(given: str) -> MindSporePython:
    """The interpreter that the user names: a file, a command, or the directory of an environment.

    UsageError if it cannot run, or has no MindSpore.
    """
    executable = _executable(given)
    try:
        answer = subprocess.run(
            [executable, "-c", _PROBE],
            capture_output=True,
            text=True,
            timeout=_START_SECONDS,
            stdin=subprocess.DEVNULL,
        )
        facts = json.loads(answer.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        raise UsageError(f"--python {given}: {executable} is not Python", slug="python") from None
    if not isinstance(facts, dict) or not facts.get("found"):
        raise UsageError(
            f"--python {given}: there is no MindSpore in it; install it: "
            f"{executable} -m pip install mindspore",
            slug="mindspore-missing",
        )
    return MindSporePython(executable, str(facts.get("version", "")))


def _executable(given: str) -> str:
    path = Path(given)
    if path.is_dir():
        inside = path / "bin" / "python"
        if inside.exists():
            return str(inside.absolute())  # Not resolved: the link is what makes the environment.
        raise UsageError(
            f"--python {given} is no Python environment: there is no bin/python in it",
            slug="python",
        )
    found = shutil.which(given)
    if found is None:
        raise UsageError(
            f"--python {given} is neither an environment nor a python that can be run",
            slug="python",
        )
    return found


def needs_mindspore(module: str | None, program: Sequence[str]) -> bool:
    """Whether a script, or a module beside it that it imports, imports MindSpore and not torch.

    Most scripts import torch themselves, so that one file is read.
    """
    is_found = False
    if module is None:
        waiting = [Path(program[0])] if program else []
    else:
        waiting = _files_of(module, Path.cwd())
    seen: set[Path] = set()
    while waiting and len(seen) < _MOST_FILES:
        file = waiting.pop(0)
        if file in seen:
            continue
        seen.add(file)
        text = _text_of(file)
        names = _IMPORT.findall(text)
        if any(name.partition(".")[0] == "torch" for name in names):
            return False
        is_found = is_found or (_NAME in text and _imports_mindspore(text))
        waiting += [each for name in names for each in _files_of(name, file.parent)]
    return is_found


def refuse_without_mindspore(name: str) -> None:
    """UsageError if the present environment has no MindSpore for the script ``name``."""
    if find_spec(_NAME) is None:
        raise _missing(name)


def hint_at_python(error: BaseException | None, name: str) -> str | None:
    """The line to print after a script that ended because there is no MindSpore, else None."""
    is_missing = isinstance(error, ModuleNotFoundError) and error.name == _NAME
    return ProblemLine.about(_missing(name)) if is_missing else None


def _missing(name: str) -> UsageError:
    return UsageError(
        f"{name} trains with MindSpore, which is not in this environment; name one that has it: "
        "--python ENV, such as --python .venv-mindspore (made by: python3 -m venv "
        ".venv-mindspore && .venv-mindspore/bin/pip install mindspore)",
        slug="mindspore-missing",
    )


def _text_of(file: Path) -> str:
    """The text of a source; empty if it is no such file: running it tells what is wrong."""
    try:
        if not file.is_file() or file.stat().st_size > _MOST_BYTES:
            return ""
        return file.read_text("utf-8", "replace")
    except OSError:
        return ""


def _imports_mindspore(text: str) -> bool:
    """Whether a source cannot run without MindSpore: an import in a function or in ``try`` may
    never happen, or fail."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    for node in tree.body:
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        if any(name.partition(".")[0] == _NAME for name in names):
            return True
    return False


def _files_of(module: str, directory: Path) -> list[Path]:
    place = directory.joinpath(*module.split("."))
    candidates = (place.with_suffix(".py"), place / "__init__.py", place / "__main__.py")
    return [file for file in candidates if file.is_file()]
