"""Finds the lines of the user's code that made an op run."""

from __future__ import annotations

import linecache
import opcode
import os
import re
import sysconfig
from functools import cache
from types import CodeType, FrameType

import torch

import sonde
from sonde.adapters.torch.private import frames_from
from sonde.core.graph import Source
from sonde.core.text.notebook_cells import shown_file

_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_SONDE = os.path.dirname(os.path.abspath(sonde.__file__)) + os.sep
_RUNNERS = (os.path.join(_SONDE, "cli", ""), os.path.join(_SONDE, "integrations", "notebook", ""))
_REPLAY = os.path.join(_SONDE, "adapters", "torch", "replay", "execution.py")
_STDLIB = os.path.abspath(sysconfig.get_paths()["stdlib"]) + os.sep
_PACKAGES = tuple(
    {os.path.abspath(sysconfig.get_paths()[key]) + os.sep for key in ("purelib", "platlib")}
)
_ENGINE = os.path.join(_TORCH, "autograd", "graph.py")
_ENGINE_FUNCTION = "_engine_run_backward"
_AUTOGRAD = os.path.join(_TORCH, "autograd", "__init__.py")
_SEED_FUNCTION = "_make_grads"
_MODULE = os.path.join(_TORCH, "nn", "modules", "module.py")

# The instruction before CALL in Python 3.11, None in other versions, and the space after one.
_PRECALL: int | None = opcode.opmap.get("PRECALL")
_CACHE: int | None = opcode.opmap.get("CACHE")

MOST_FRAMES = 32
_MOST_KNOWN = 20_000

_RESUMED = re.compile(r"torch_dynamo_resume_in_(.+)_at_\d+")


@cache
def is_user_file(filename: str) -> bool:
    """Whether ``filename`` is not of torch, Sonde, the standard library or frozen code.

    Other installed packages count as the user's: a model of a model library is what the user
    wants to read.
    """
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


def engine_code() -> CodeType:
    """The code of the frame that `is_engine_frame` recognises."""
    return getattr(torch.autograd.graph, _ENGINE_FUNCTION).__code__  # type: ignore[no-any-return]


def is_same_call(code: CodeType, first: int, second: int) -> bool:
    """Whether two values of ``f_lasti`` in frames of ``code`` are the same call.

    Python 3.11 has two instructions for a call, PRECALL and CALL. A frame stands at CALL while the
    function runs; when the call has run a few times and Python specialises it (``float(loss)``,
    ``loss.item()``), the frame stands at PRECALL.
    """
    return first == second or _call_at(code.co_code, first) == _call_at(code.co_code, second)


def _call_at(instructions: bytes, offset: int) -> int:
    """The offset of the CALL that follows if a PRECALL is at ``offset``, else ``offset``."""
    if _PRECALL is None or not 0 <= offset < len(instructions):
        return offset
    if instructions[offset] != _PRECALL:
        return offset
    offset += 2
    while instructions[offset] == _CACHE:
        offset += 2
    return offset


def runs_module(caller: FrameType) -> bool:
    """Whether a module's forward runs between ``caller`` and the engine that runs backward."""
    for frame in frames_from(caller):
        if is_engine_frame(frame):
            return False
        if frame.f_code.co_name == "_call_impl" and frame.f_code.co_filename == _MODULE:
            return True
    return False


def begins_backward(caller: FrameType) -> bool:
    """Whether ``backward()`` or ``grad()``, called by user code, is making the first gradient."""
    for frame in frames_from(caller):
        code = frame.f_code
        if is_user_file(code.co_filename):
            return False
        if code.co_name == _SEED_FUNCTION and code.co_filename == _AUTOGRAD:
            return True
    return False


def above_engine(caller: FrameType) -> FrameType | None:
    """The engine's frame nearest above ``caller``, if it runs."""
    return next(filter(is_engine_frame, frames_from(caller)), None)


def find_user_frame(caller: FrameType) -> tuple[int, FrameType | None]:
    """The nearest user frame, ``caller`` or one above it, and how far above; None without one.

    In backward the search stops at autograd's engine: a frame below it is the user's own (a hook,
    a custom Function), a frame above it is only the line that called ``backward()``. Where a step
    is executed again, a frame above the replay is only the line that an optimizer was called in.
    """
    for depth, frame in enumerate(frames_from(caller)):
        if is_user_file(frame.f_code.co_filename):
            return depth, frame
        if is_engine_frame(frame) or frame.f_code.co_filename == _REPLAY:
            break
    return 0, None


# Frames and stacks that were met before. The ops of one line, of which a large network runs
# thousands in a step, share one object; the garbage collector looks at each object again and again.
_known_sources: dict[tuple[str, int, str], Source] = {}
_known_stacks: dict[tuple[Source, ...], tuple[Source, ...]] = {}


def stack_of(frame: FrameType | None) -> tuple[Source, ...]:
    """The user's frames from ``frame`` outwards to where Sonde runs the script, if it does, or
    executes a step again."""
    found: list[Source] = []
    for each in frames_from(frame):
        code = each.f_code
        if len(found) == MOST_FRAMES or _begins_script(code.co_filename):
            break
        if is_user_file(code.co_filename):
            found.append(_source_of(each))
    if len(_known_stacks) > _MOST_KNOWN:
        _known_stacks.clear()
    stack = tuple(found)
    return _known_stacks.setdefault(stack, stack)


@cache
def _begins_script(filename: str) -> bool:
    return filename.startswith((*_RUNNERS, _REPLAY))


def _source_of(frame: FrameType) -> Source:
    code = frame.f_code
    line = frame.f_lineno or code.co_firstlineno
    file = shown_file(code.co_filename)
    key = (file, line, code.co_name)
    known = _known_sources.get(key)
    if known is None:
        if len(_known_sources) > _MOST_KNOWN:
            _known_sources.clear()
        text = linecache.getline(code.co_filename, line, frame.f_globals).strip()
        known = Source(file, line, plain_function(code.co_name), text)
        _known_sources[key] = known
    return known


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
