"""Code that runs in the training thread passes on what a signal handler of the program raised.

``except OSError`` around Sonde's own code also catches the ``TimeoutError`` of a handler, and
``except Exception`` catches everything: such a clause calls ``pass_on`` first.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import sonde

ROOT = Path(sonde.__file__).parent
IN_TRAINING = (
    *("adapters/torch/eager", "adapters/torch/tensors", "adapters/torch/steps"),
    *("adapters/torch/monitor", "adapters/torch/diagnosis", "adapters/torch/compiled"),
    *("adapters/torch/replay/storage", "adapters/torch/checkpoints/lineage.py"),
    *("adapters/torch/replay/execution.py", "adapters/torch/debugging", "capture/session.py"),
    *("dump/sinks", "dump/writing", "debugger/values", "debugger/connection/link.py"),
    "watch/explanations",
)
ELSEWHERE = {
    "adapters/torch/debugging/forward_trace.py": "the traced child process",
    "adapters/torch/monitor/snapshots.py": "the thread that copies",
    "adapters/torch/replay/storage/captured_step.py": "reading a captured step",
    "adapters/torch/replay/storage/optimizer_reader.py": "reading a captured step",
}
"""Files whose clauses run in no training thread, and where they run."""
HARMLESS = {
    *("CppCompileError", "FileNotFoundError", "ImportError", "KeyboardInterrupt"),
    *("MissingStatisticError", "Terminated", "CaptureError", "DecodeError", "FrameError"),
    "SondeError",
}
BREAKABLE = {
    "threading": {"Barrier", "BoundedSemaphore", "Condition", "Event", "Semaphore", "Timer"},
    "queue": {"LifoQueue", "PriorityQueue", "Queue"},
    "concurrent.futures": {"Future", "ThreadPoolExecutor"},
}
"""Classes whose methods hold a lock in Python code."""
OWN_PROCESS = ("server/", "cli/", "compare/", "workers/")
HANDED_OUT = "train/"
"""The program itself asks for a ``Future`` of a checkpoint."""
PASSING = {"pass_on", "raise_interruption", "failed", "_failed", "_report_invalid"}


def clauses(path: Path) -> Iterator[ast.ExceptHandler]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Try):
            yield from node.handlers


def names_in(kind: ast.expr | None) -> set[str]:
    if kind is None:
        return {"BaseException"}
    parts = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return {ast.unparse(part).rpartition(".")[2] for part in parts}


def hands_on(clause: ast.ExceptHandler) -> bool:
    """Whether the clause calls what raises an exception of the program again, or raises: then the
    exception is in the context of another one, where the outer clause finds it."""
    return any(
        isinstance(each, ast.Raise)
        or (isinstance(each, ast.Call) and ast.unparse(each.func).rpartition(".")[2] in PASSING)
        for statement in clause.body
        for each in ast.walk(statement)
    )


def files() -> Iterator[Path]:
    for place in IN_TRAINING:
        path = ROOT / place
        yield from [path] if path.is_file() else sorted(path.rglob("*.py"))


def test_clauses_in_the_training_thread_pass_on_what_the_program_raised() -> None:
    found = []
    for path in files():
        name = path.relative_to(ROOT).as_posix()
        for clause in clauses(path):
            caught = names_in(clause.type) - HARMLESS
            if caught and name not in ELSEWHERE and not hands_on(clause):
                found.append(f"{name}:{clause.lineno}: except {', '.join(sorted(caught))}")
    assert found == []


@pytest.mark.parametrize("path", sorted(ELSEWHERE))
def test_what_runs_elsewhere_exists(path: str) -> None:
    assert any(not hands_on(clause) for clause in clauses(ROOT / path))


def breakable(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module, names = node.value.id, [node.attr]
        elif isinstance(node, ast.ImportFrom):
            module, names = node.module or "", [each.name for each in node.names]
        else:
            continue
        for name in names:
            if name in BREAKABLE.get(module, ()):
                yield f"{path.relative_to(ROOT).as_posix()}:{node.lineno}: {module}.{name}"


def test_the_training_thread_shares_no_lock_that_a_signal_handler_could_leave_locked() -> None:
    """``core/threads/thread_event.py`` says why."""
    found = [each for path in sorted(ROOT.rglob("*.py")) for each in breakable(path)]
    assert any(each.startswith(HANDED_OUT) for each in found)
    assert [each for each in found if not each.startswith((*OWN_PROCESS, HANDED_OUT))] == []


def test_directories_are_made_by_a_function_that_passes_on_what_the_program_raised() -> None:
    """``core/files/directories.py`` says why."""
    elsewhere = (*OWN_PROCESS, "tune/", "profile/", "integrations/pytest/")
    on_disk = ("dump/reading/", "dump/conversion.py")
    found = [
        f"{name}:{node.value.lineno}"
        for path in sorted(ROOT.rglob("*.py"))
        if not (name := path.relative_to(ROOT).as_posix()).startswith((*elsewhere, *on_disk))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.keyword) and node.arg == "exist_ok"
    ]
    assert found == []
