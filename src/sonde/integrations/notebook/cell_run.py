"""Executes the body of a cell as IPython does: same names, same line numbers, same result."""

from __future__ import annotations

import ast
import inspect
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

from IPython.core.error import UsageError as CellUsageError

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_MAGIC_LINES: Final = 1


def run_body(shell: InteractiveShell, body: str) -> Any:
    """Execute ``body``, the cell below its first line, and return the value of its last line if
    that is an expression. What the body raises is raised."""
    __tracebackhide__ = True
    source = "\n" * _MAGIC_LINES + shell.transform_cell(body)
    name = shell.compile.cache(source, _number(shell))
    tree = shell.transform_ast(shell.compile.ast_parse(source, filename=name))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    first = _compiled(shell, tree, name, "exec")
    ending = None
    if isinstance(last, ast.Expr):
        ending = _compiled(shell, ast.Expression(last.value), name, "eval")
    exec(first, shell.user_global_ns, shell.user_ns)
    return None if ending is None else eval(ending, shell.user_global_ns, shell.user_ns)


def _number(shell: InteractiveShell) -> int:
    """The number of the cell that runs; the shell may have counted on already."""
    numbers = _numbers(shell)
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_filename in numbers:
            return numbers[frame.f_code.co_filename]
        frame = frame.f_back
    return int(shell.execution_count)


def _compiled(shell: InteractiveShell, tree: ast.AST, name: str, mode: str) -> CodeType:
    with shell.compile.extra_flags(ast.PyCF_ALLOW_TOP_LEVEL_AWAIT):
        found: CodeType = shell.compile(tree, name, mode)
    if found.co_flags & inspect.CO_COROUTINE:
        raise CellUsageError(
            "%%sonde cannot observe a cell with 'await' outside a function; await in another cell"
        )
    return found


def cell_name(shell: InteractiveShell, file: str) -> str | None:
    """``In[3]`` for the file name under which a cell was compiled, None for another file."""
    number = _numbers(shell).get(file)
    return None if number is None else f"In[{number}]"


def _numbers(shell: InteractiveShell) -> dict[str, int]:
    """The numbers of cells by the file names under which they were compiled."""
    return getattr(shell.compile, "_filename_map", {})
