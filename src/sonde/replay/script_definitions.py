"""The definitions of a script without its statements: its classes, for unpickling.

A class that lives in a script is ``__main__.Net`` in a pickle. To find it again the script is
parsed, and only its imports, functions, classes and constant assignments are executed; what it does
(loading data, building the network, training) is not.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Final

from sonde.replay.errors import ReplayError

_DEFINITIONS: Final = (
    ast.Import,
    ast.ImportFrom,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
)
_CONSTANT_PARTS: Final = (
    *(ast.Constant, ast.Name, ast.Attribute, ast.Tuple, ast.List, ast.Set, ast.Dict, ast.Starred),
    *(ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Subscript, ast.Slice),
    *(ast.JoinedStr, ast.FormattedValue, ast.Lambda, ast.arguments, ast.arg, ast.keyword),
    *(ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context),
)


@dataclass(frozen=True, slots=True)
class Definitions:
    """A module with the definitions of a script; ``skipped`` has the reason for each name that
    could not be defined, because it needs a statement of the script that was not executed."""

    module: ModuleType
    skipped: dict[str, str] = field(default_factory=dict)


def script_definitions(path: Path, *, package: str | None = None) -> Definitions:
    """Execute the imports, definitions and constants of a script as a module ``__main__``.

    ``package`` is the package of a program that was started with ``-m``, for relative imports. The
    caller puts the module into ``sys.modules``: see ``as_main``.
    """
    tree, flags = _parse(path)
    module = ModuleType("__main__")
    module.__dict__.update(
        __builtins__=builtins, __file__=str(path), __package__=package, __spec__=None
    )
    found = Definitions(module)
    with as_main(found):
        for statement in _definitions(tree.body):
            _execute(statement, path, flags, found)
    return found


@contextmanager
def as_main(definitions: Definitions) -> Iterator[None]:
    """Let ``__main__`` be the definitions in this context, and find modules beside the script."""
    module = definitions.module
    before, path = sys.modules["__main__"], list(sys.path)
    sys.modules["__main__"] = module
    if not module.__package__:
        sys.path.insert(0, os.path.dirname(os.path.abspath(str(module.__file__))))
    try:
        yield
    finally:
        sys.modules["__main__"] = before
        sys.path[:] = path


def is_definition(statement: ast.stmt) -> bool:
    """Whether a statement only defines: an import, a function, a class or a constant.

    ``try`` counts if everything in it does: scripts import optional packages that way.
    """
    if isinstance(statement, _DEFINITIONS):
        return True
    if isinstance(statement, ast.Try):
        handlers = [each for handler in statement.handlers for each in handler.body]
        parts = (*statement.body, *handlers, *statement.orelse, *statement.finalbody)
        return all(isinstance(each, ast.Pass) or is_definition(each) for each in parts)
    if isinstance(statement, ast.Assign):
        return all(map(_is_name, statement.targets)) and _is_constant(statement.value)
    if isinstance(statement, ast.AnnAssign):
        return statement.value is not None and _is_constant(statement.value)
    return False


def _definitions(statements: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The defining statements, also those under ``if __name__ == "__main__":``."""
    for statement in statements:
        if is_definition(statement):
            yield statement
        elif isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test):
            yield from _definitions(statement.body)


def _is_name(target: ast.expr) -> bool:
    if isinstance(target, ast.Tuple | ast.List):
        return all(map(_is_name, target.elts))
    return isinstance(target, ast.Name)


def _is_constant(value: ast.expr) -> bool:
    """Whether an expression calls nothing, awaits nothing and assigns nothing."""
    return all(isinstance(part, _CONSTANT_PARTS) for part in ast.walk(value))


def _parse(path: Path) -> tuple[ast.Module, int]:
    try:
        source = path.read_bytes()
    except OSError as error:
        raise ReplayError(
            f"the script {path}, whose classes the captured step needs, cannot be read: "
            f"{error.strerror}; give another with --script, or build the network with --module",
            slug="script-missing",
        ) from None
    try:
        tree = ast.parse(source, str(path))
    except (SyntaxError, ValueError) as error:
        line = f" (line {error.lineno})" if isinstance(error, SyntaxError) else ""
        raise ReplayError(
            f"the script {path} is not valid Python{line}: {error.args[0]}", slug="script-missing"
        ) from None
    flags = 0
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
            for alias in statement.names:
                flags |= getattr(__future__, alias.name).compiler_flag
    return tree, flags


def _execute(statement: ast.stmt, path: Path, flags: int, found: Definitions) -> None:
    code = compile(ast.Module([statement], []), str(path), "exec", flags=flags, dont_inherit=True)
    try:
        exec(code, found.module.__dict__)
    except Exception as error:  # any code of the user: the name is missing, and is said if needed
        reason = f"line {statement.lineno}: {type(error).__name__}: {error}"
        for name in _names(statement):
            found.skipped[name] = reason


def _names(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        for alias in statement.names:
            yield alias.asname or alias.name.partition(".")[0]
    else:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id
