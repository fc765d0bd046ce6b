"""The loop that a training was in at its last step, and the lines that leave it.

Python does not tell by which line a program has left a loop, unless every line is traced. The
source tells which lines can: ``break`` and ``return`` in the loops around the optimizer's step, and
calls of ``sys.exit``.
"""

from __future__ import annotations

import ast
import linecache
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Final

from sonde.adapters.torch import private
from sonde.adapters.torch.calling_line import is_program, own_frame
from sonde.core.text.notebook_cells import shown_file
from sonde.ranks.report import LoopReport

_LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)
_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_MOST_EXITS: Final = 3
_MOST_CALLERS: Final = 20


@dataclass(slots=True, eq=False)
class LastStep:
    """The lines of the program that have called the last step, the innermost first. Keeps no frame,
    which would keep the program's variables alive."""

    _place: tuple[CodeType, int] | None = None
    _lines: list[tuple[str, int]] = field(default_factory=list)

    def take(self, frame: FrameType | None) -> None:
        """A step begins, called from ``frame``. One at the same line has the same callers."""
        own = own_frame(frame)
        if own is None or self._place == (own.f_code, own.f_lineno):
            return
        self._place = own.f_code, own.f_lineno
        callers = [
            (each.f_code.co_filename, each.f_lineno)
            for each in private.frames_from(own)
            if is_program(each.f_code.co_filename)
        ]
        self._lines = callers[:_MOST_CALLERS]

    def report(self, rank: int) -> LoopReport | None:
        """The innermost loop around the last step; None if there was no step in a loop."""
        found = [(file, each) for file, line in self._lines for each in loops_around(file, line)]
        if not found:
            return None
        exits = [_shown(file, line) for file, loop in found for line in sorted(set(_exits(loop)))]
        file, innermost = found[0]
        step = _shown(*self._lines[0])
        return LoopReport(rank, step, _shown(file, innermost.lineno), tuple(exits[:_MOST_EXITS]))


def loops_around(file: str, line: int) -> list[ast.stmt]:
    """The loops whose body has ``line``, in the function that it is in; the innermost first. None
    where the source is not known."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return []
    found: list[ast.stmt] = []
    node: ast.AST | None = tree
    while node is not None:
        if isinstance(node, _SCOPES):
            found.clear()
        body = node.body if isinstance(node, _LOOPS) else ()
        if isinstance(node, _LOOPS) and any(_has(each, line) for each in body):
            found.insert(0, node)
        node = next((each for each in ast.iter_child_nodes(node) if _has(each, line)), None)
    return found


def _has(node: ast.AST, line: int) -> bool:
    """Whether ``line`` is in ``node``."""
    begin, end = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
    return begin is not None and end is not None and begin <= line <= end


def _exits(loop: ast.AST, *, is_inner: bool = False) -> Iterator[int]:
    """The lines that leave ``loop``; of a loop inside it only those that leave the function."""
    for node in ast.iter_child_nodes(loop):
        if isinstance(node, _SCOPES):
            continue
        if isinstance(node, ast.stmt) and _leaves(node, is_inner=is_inner):
            yield node.lineno
        else:
            yield from _exits(node, is_inner=is_inner or isinstance(node, _LOOPS))


def _leaves(node: ast.stmt, *, is_inner: bool) -> bool:
    is_break = isinstance(node, ast.Break) and not is_inner
    return is_break or isinstance(node, ast.Return) or _ends_process(node)


def _ends_process(node: ast.stmt) -> bool:
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return False
    name = call.func
    if isinstance(name, ast.Name):
        return name.id in ("exit", "quit")
    return isinstance(name, ast.Attribute) and name.attr in ("exit", "_exit")


def _shown(file: str, line: int) -> str:
    return f"{os.path.basename(shown_file(file))}:{line}"
