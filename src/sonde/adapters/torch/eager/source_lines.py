"""Finds the lines of the user's code that made an op run."""

from __future__ import annotations

import linecache
import os
import re
import sysconfig
from dataclasses import dataclass
from types import CodeType, FrameType

import torch

import sonde
from sonde.core.graph import Source

_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_SONDE = os.path.dirname(os.path.abspath(sonde.__file__)) + os.sep
_RUNNER = os.path.join(_SONDE, "cli", "")
_STDLIB = os.path.abspath(sysconfig.get_paths()["stdlib"]) + os.sep
_PACKAGES = tuple(
    {os.path.abspath(sysconfig.get_paths()[key]) + os.sep for key in ("purelib", "platlib")}
)
_ENGINE = os.path.join(_TORCH, "autograd", "graph.py")
_ENGINE_FUNCTION = "_engine_run_backward"
_AUTOGRAD = os.path.join(_TORCH, "autograd", "__init__.py")
_SEED_FUNCTION = "_make_grads"
_MODULE = os.path.join(_TORCH, "nn", "modules", "module.py")

MOST_FRAMES = 32

_OURS: dict[str, bool] = {}
_RESUMED = re.compile(r"torch_dynamo_resume_in_(.+)_at_\d+")


def is_user_file(filename: str) -> bool:
    """Whether ``name`` is not of torch, Sonde, the standard library or frozen code.

    Other installed packages count as the user's: a model of a model library is what the user
    wants to read.
    """
    known = _OURS.get(filename)
    if known is None:
        known = _OURS[filename] = _is_user_file(filename)
    return known


def _is_user_file(filename: str) -> bool:
    if filename.startswith("<"):
        # A notebook cell or ``python -c`` is the user's; frozen importlib is not.
        return not filename.startswith(("<frozen", "<__array_function__", "<eval_with_key"))
    if filename.startswith((_TORCH, _SONDE)):
        return False
    return not filename.startswith(_STDLIB) or filename.startswith(_PACKAGES)


def is_engine_frame(frame: FrameType) -> bool:
    """Whether ``frame`` is autograd's engine running backward."""
    code = frame.f_code
    return code.co_name == _ENGINE_FUNCTION and code.co_filename == _ENGINE


def runs_module(frame: FrameType | None) -> bool:
    """Whether a module's forward runs between ``frame`` and the engine that runs backward."""
    while frame is not None and not is_engine_frame(frame):
        if frame.f_code.co_name == "_call_impl" and frame.f_code.co_filename == _MODULE:
            return True
        frame = frame.f_back
    return False


def begins_backward(frame: FrameType | None) -> bool:
    """Whether ``frame`` is ``backward()`` or ``grad()`` making the gradient to begin with."""
    while frame is not None and not is_user_file(frame.f_code.co_filename):
        code = frame.f_code
        if code.co_name == _SEED_FUNCTION and code.co_filename == _AUTOGRAD:
            return True
        frame = frame.f_back
    return False


@dataclass(frozen=True, slots=True)
class CodePosition:
    """The innermost frame of user code above an op: its depth, code and instruction."""

    depth: int
    code: CodeType
    last: int


def above_engine(frame: FrameType | None) -> FrameType | None:
    """The engine's frame nearest above ``frame``, if it runs."""
    while frame is not None and not is_engine_frame(frame):
        frame = frame.f_back
    return frame


def find_place(caller: FrameType) -> tuple[CodePosition | None, FrameType | None]:
    """The nearest user frame, ``caller`` or one above it.

    In backward the search stops at autograd's engine: a frame below it is the user's own (a hook,
    a custom Function), a frame above it is only the line that called ``backward()``.
    """
    frame: FrameType | None = caller
    steps = 0
    while frame is not None:
        code = frame.f_code
        if is_user_file(code.co_filename):
            return CodePosition(steps, code, frame.f_lasti), frame
        if is_engine_frame(frame):
            return None, None
        frame = frame.f_back
        steps += 1
    return None, None


def stack_of(frame: FrameType | None) -> tuple[Source, ...]:
    """The user's frames from ``frame`` outwards to where Sonde runs the script, if it does."""
    found: list[Source] = []
    while frame is not None and len(found) < MOST_FRAMES:
        code = frame.f_code
        if code.co_filename.startswith(_RUNNER):
            break
        if is_user_file(code.co_filename):
            line = frame.f_lineno or code.co_firstlineno
            text = linecache.getline(code.co_filename, line, frame.f_globals).strip()
            found.append(Source(code.co_filename, line, plain_function(code.co_name), text))
        frame = frame.f_back
    return tuple(found)


def plain_function(name: str) -> str:
    """The function's own name; dynamo renames the rest of a function after a graph break."""
    match = _RESUMED.fullmatch(name)
    return match[1] if match is not None else name


def joined_sources(inner: tuple[Source, ...], outer: tuple[Source, ...]) -> tuple[Source, ...]:
    """The frames of a trace and those around the compiled code, the frame they share once."""
    if not inner:
        return outer
    shared = inner[-1]
    if outer and (outer[0].file, outer[0].function) == (shared.file, shared.function):
        return (*inner, *outer[1:])
    return (*inner, *outer)
