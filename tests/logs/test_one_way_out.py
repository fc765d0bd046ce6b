"""Sonde writes to standard error in one place; progress and a program's own output do not count."""

from __future__ import annotations

import ast
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
