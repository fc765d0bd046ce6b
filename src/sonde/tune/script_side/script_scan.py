"""Finds the options and variables that a training script reads, from its source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_DECLARING = ("add_argument", "option", "Option", "add_option")
_READING = ("environ", "getenv")
_SEARCH_WORDS = re.compile(r"\b(HyperConfig|SONDE_TUNE_VALUES|MINDINSIGHT_HYPER_CONFIG)\b")
_SUGGESTS = re.compile(r"\btune\b[^\n]*\bsuggest\b|\bsuggest\(")
_SHELL_VARIABLE = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)")
_PYTHON_FILE = re.compile(r"[\w./-]+\.py\b")
MOST_FILES = 50
MOST_BYTES = 2 << 20


@dataclass(slots=True)
class ScriptInputs:
    """The options a script declares, the variables it reads, whether it calls `suggest` itself.

    ``is_readable`` is false when no source was found; then nothing is known about the script.
    """

    options: set[str] = field(default_factory=set)
    variables: set[str] = field(default_factory=set)
    asks_the_search: bool = False
    is_readable: bool = False


def scan_command(words: Sequence[str], directory: Path) -> ScriptInputs:
    """The inputs of the scripts named in a command, and of the modules beside them they import."""
    inputs = ScriptInputs()
    waiting = [file for file in (directory / word for word in words) if _is_source(file)]
    if "-m" in words[:-1]:
        waiting += _module_files(words[words.index("-m") + 1], directory)
    seen: set[Path] = set()
    while waiting and len(seen) < MOST_FILES:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        text = _read(file)
        inputs.is_readable = True
        inputs.asks_the_search |= bool(_SEARCH_WORDS.search(text) or _SUGGESTS.search(text))
        if file.suffix == ".py":
            waiting += _scan_python(text, file, inputs)
        else:
            inputs.variables.update(_SHELL_VARIABLE.findall(text))
            named = (file.parent / word for word in _PYTHON_FILE.findall(text))
            beside = (directory / word for word in _PYTHON_FILE.findall(text))
            waiting += [one for one in (*named, *beside) if _is_source(one)]
    return inputs


def _is_source(file: Path) -> bool:
    try:
        is_script = file.suffix in (".py", ".sh", ".bash") and file.is_file()
        return is_script and file.stat().st_size <= MOST_BYTES
    except OSError:
        return False


def _module_files(name: str, directory: Path) -> list[Path]:
    place = directory.joinpath(*name.split("."))
    candidates = (place.with_suffix(".py"), place / "__main__.py")
    return [file for file in candidates if _is_source(file)]


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _scan_python(text: str, file: Path, inputs: ScriptInputs) -> list[Path]:
    """Add the inputs of one file; returns the files beside it that it imports."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return []
    imported: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = _name(node.func)
            if name in _DECLARING:
                inputs.options.update(one for one in _texts(node.args) if one.startswith("-"))
            elif name == "getenv" or (name in ("get", "pop") and _reads_environment(node.func)):
                inputs.variables.update(_texts(node.args[:1]))
        elif isinstance(node, ast.Subscript) and _name(node.value) == "environ":
            inputs.variables.update(_texts([node.slice]))
        elif isinstance(node, ast.Import):
            imported += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported += [node.module, *(f"{node.module}.{one.name}" for one in node.names)]
    return [one for name in imported for one in _module_files(name, file.parent)]


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _reads_environment(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and _name(function.value) in _READING


def _texts(nodes: Iterable[ast.expr]) -> list[str]:
    return [
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
