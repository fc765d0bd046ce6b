"""Runs a user's program inside Sonde's process as ``python`` would run it.

The program is ``__main__`` and has its own ``sys.argv`` and ``sys.path``; the process ends as the
program ends. Nothing is restored afterwards, so that functions registered with ``atexit`` find the
interpreter as the program left it.
"""

from __future__ import annotations

import builtins
import os
import pkgutil
import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader, SourcelessFileLoader
from types import CodeType, ModuleType, TracebackType
from typing import Any, NoReturn, cast

from sonde.capture.program_end import belongs_to, forget_capture, leave
from sonde.core.errors import CaptureError, UsageError
from sonde.dump.lineage import LINEAGE

# Modules whose frames are removed from tracebacks: those that start the program.
_LAUNCHING = ("sonde.cli.", "runpy", "importlib.", "_frozen_importlib", "pkgutil")


class ProgramNotFoundError(UsageError):
    """The program to run does not exist.

    ``runpy`` raises it, too, with only a message, which may quote the message of an earlier one.
    """

    def __init__(self, message: str) -> None:
        quoted = " [program-not-found]"
        super().__init__(message.replace(quoted, ""), slug="program-not-found")


@dataclass(frozen=True, slots=True)
class Program:
    """Code ready to run as ``__main__``; ``spec`` is None for a plain file, as in python.

    ``path0`` replaces the folder of Sonde's own program in ``sys.path``.
    """

    code: CodeType
    file: str
    spec: ModuleSpec | None
    argv0: str
    path0: str | None


def run_program(
    module: str | None, words: Sequence[str], start: Callable[[], AbstractContextManager[object]]
) -> BaseException | None:
    """Run a program in the context that ``start`` creates.

    The program is a module or package, as with ``python -m``, and ``words`` are its arguments; or
    it is the first of ``words``: a script, or a directory or zip file with a ``__main__.py``.
    Returns the exception that the program raised, `SystemExit` included, with only the frames of
    the program; None if it ran to its end.
    """
    try:
        program, arguments = _locate(module, words)
    except ProgramNotFoundError:
        raise
    except BaseException as error:  # a SyntaxError, or what a parent package raised
        return _without_our_frames(error)
    try:
        context = start()
        context.__enter__()
    except KeyboardInterrupt as interrupt:
        interrupt.__traceback__ = None  # Nothing of the program has run yet.
        return interrupt
    process = os.getpid()
    outcome: BaseException | None = None
    try:
        _become_main(program, arguments)
    except BaseException as error:
        trace = error.__traceback__
        outcome = _without_our_frames(error)
        outcome.__traceback__ = outcome.__traceback__ or trace  # all frames for a failure of Sonde
    if os.getpid() != process:
        return outcome  # the end of a forked child: the capture belongs to the parent
    return leave(context, outcome)


@contextmanager
def needing_torch(why: str) -> Iterator[None]:
    """Report it as an error of the user if an import in this context needs PyTorch."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise CaptureError(f"{why}; pip install torch", slug="torch-missing") from None


def end_as_python_would(error: BaseException) -> NoReturn:
    """Raise the exception of a program; an uncaught one is shown without frames of Sonde.

    Must be called outside any ``except``. From here on the interpreter handles exit codes, text
    given to ``sys.exit``, SIGINT and the program's own ``sys.excepthook``.
    """
    clean = error.__traceback__
    hook = sys.excepthook

    def show(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
        if value is error:
            trace = value.__traceback__ = clean
        hook(kind, value, trace)

    sys.excepthook = show
    raise error


def _become_main(program: Program, arguments: Sequence[str]) -> None:
    module = ModuleType("__main__")
    spec = program.spec
    attributes: dict[str, Any] = {
        "__builtins__": builtins,
        "__file__": program.file,
        "__cached__": None if spec is None else spec.cached,
        "__spec__": spec,
        "__package__": None if spec is None else spec.parent,
        "__loader__": SourceFileLoader("__main__", program.file) if spec is None else spec.loader,
    }
    if sys.version_info < (3, 14):
        attributes["__annotations__"] = {}
    module.__dict__.update(attributes)
    sys.argv = [program.argv0, *arguments]
    LINEAGE.run_program(program.argv0, arguments)
    if program.path0 is not None:
        sys.path[: 0 if _safe_path() else 1] = [program.path0]
    sys.modules["__main__"] = module
    exec(program.code, module.__dict__)


def _locate(module: str | None, words: Sequence[str]) -> tuple[Program, Sequence[str]]:
    if module is None:
        return _locate_file(words[0]), words[1:]
    sys.argv = ["-m", *words]
    if not _safe_path():
        sys.path[0] = os.getcwd()
    return _locate_module(module), words


def _locate_file(path: str) -> Program:
    absolute = path if os.path.isabs(path) else os.path.join(os.getcwd(), path)
    importer = pkgutil.get_importer(absolute)
    if importer is not None:
        return _locate_main_in(absolute, path, cast(Any, importer))
    try:
        with open(absolute, "rb") as stream:
            source = stream.read()
    except OSError as error:
        raise ProgramNotFoundError(
            f"can't open file {absolute!r}: [Errno {error.errno}] {error.strerror}"
        ) from None
    code: CodeType | None
    if absolute.endswith(".pyc"):
        code = cast(CodeType, SourcelessFileLoader("__main__", absolute).get_code("__main__"))
    else:
        code = compile(source, absolute, "exec", dont_inherit=True)
    folder = None if _safe_path() else os.path.dirname(os.path.realpath(absolute))
    return Program(code=code, file=absolute, spec=None, argv0=path, path0=folder)


def _locate_main_in(absolute: str, path: str, importer: Any) -> Program:
    """The ``__main__`` of a directory or zip file, whose importer this is."""
    spec: ModuleSpec | None = importer.find_spec("__main__")
    code = (
        None if spec is None or spec.loader is None else cast(Any, spec.loader).get_code("__main__")
    )
    if spec is None or code is None:
        raise ProgramNotFoundError(f"can't find '__main__' module in {absolute!r}")
    return Program(code=code, file=str(spec.origin), spec=spec, argv0=path, path0=absolute)


def _locate_module(name: str) -> Program:
    # What runpy does for `python -m` is private there, and pdb and trace use it the same way.
    _, spec, code = cast(Any, runpy)._get_module_details(name, ProgramNotFoundError)
    return Program(code=code, file=spec.origin, spec=spec, argv0=spec.origin, path0=None)


def _safe_path() -> bool:
    """Whether python was told not to add the program's folder to ``sys.path``."""
    return bool(getattr(sys.flags, "safe_path", False) or sys.flags.isolated)


def _without_our_frames(error: BaseException) -> BaseException:
    """Remove the frames before the program's first one, and those of the capture."""
    trace = error.__traceback__
    while trace is not None and belongs_to(trace, _LAUNCHING):
        trace = trace.tb_next
    error.__traceback__ = trace
    forget_capture(error)
    return error
