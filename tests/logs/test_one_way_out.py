"""Sonde writes to standard error in one place; progress and a program's own output do not count.
The name of a problem is a field of its line, never a part of a text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src" / "sonde"

# Why a file may write to standard error by itself.
ALLOWED = {
    "logs/handlers.py": "the handler of the screen",
    "startup.py": "a failure before Sonde can be imported",
    "dump/sinks/steps.py": "progress, rewritten in place",
    "cli/view.py": "progress, rewritten in place",
    "cli/compare_runs.py": "the last lines of a program's output",
}


def writes_to_stderr(tree: ast.AST) -> bool:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            words = {each.arg: ast.unparse(each.value) for each in node.keywords}
            if words.get("err") == "True" or words.get("file") == "sys.stderr":
                return True
            if ast.unparse(node.func) in ("write_to_stderr", "sys.stderr.write"):
                return True
    return False


def test_every_line_goes_through_logging() -> None:
    found = {
        path.relative_to(SOURCES).as_posix()
        for path in SOURCES.rglob("*.py")
        if writes_to_stderr(ast.parse(path.read_text()))
    }
    assert found <= set(ALLOWED), "use sonde.logs.say"
    assert found == set(ALLOWED), "these need no exception any more"


# Texts that end with the name of a problem and are no lines of `say`.
NAMED = {
    "cli/script.py": "an error that runpy copies into another",
    "core/errors.py": "the text of an error",
    "core/statistics.py": "the type of a tensor",
    "diagnosis/document.py": "the rule of a finding",
    "core/text/problem_line.py": "the text of a line, made from the name",
    "logs/handlers.py": "the log itself cannot be written",
    "startup.py": "a failure before Sonde can be imported",
    "server/": "texts for the page",
    "wire/typescript.py": "a type of TypeScript",
}
LOGGING = {"debug", "info", "warning", "error"}
SLUG = re.compile(r" \[([a-z0-9-]+|\{\})\]$")


def texts_with_a_name(tree: ast.AST) -> Iterator[int]:
    """The lines of texts that end like ``[op-unmatched]``; calls of a logger give their level."""
    logged = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in LOGGING
        for part in ast.walk(node)
    }
    for node in ast.walk(tree):
        text = ""
        if isinstance(node, ast.JoinedStr):
            parts = [each.value if isinstance(each, ast.Constant) else "{}" for each in node.values]
            text = "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        if SLUG.search(text) is not None and id(node) not in logged:
            yield node.lineno


def test_the_name_of_a_problem_is_a_field_of_its_line() -> None:
    found = {
        f"{path.relative_to(SOURCES).as_posix()}:{line}"
        for path in SOURCES.rglob("*.py")
        for line in texts_with_a_name(ast.parse(path.read_text()))
    }
    assert {each for each in found if not each.startswith(tuple(NAMED))} == set(), "ProblemLine"
    assert all(any(each.startswith(name) for each in found) for name in NAMED)


def test_a_text_with_a_name_is_noticed() -> None:
    sources = ['say("x [op-unmatched]")', 'report(f"x {y} [{slug}]")', 'return f"{x} [log-file]"']
    assert all(list(texts_with_a_name(ast.parse(source))) for source in sources)
    assert not list(texts_with_a_name(ast.parse('log.warning("%s [log-file]", x)')))
