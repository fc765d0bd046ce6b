"""When a program first asks for torch.compile: only then its compiler is imported and watched."""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from types import CodeType
from typing import Any, Literal

import torch

from sonde.adapters.torch import private
from sonde.capture.session import Session

CompiledMode = Literal["observe", "interpret", "eager"]
"""How compiled code is observed: its own kernels with observers in between; its graphs op by op; or
not at all, wanted steps then run without being compiled."""

_COMPILER = "torch._dynamo"
_WATCHED: weakref.WeakSet[CodeType] = weakref.WeakSet()


def possible_mode(asked: CompiledMode, session: Session) -> CompiledMode:
    """``asked``, or "eager" where nothing is observed, or code was compiled before anybody watched.

    There is no looking into such code; that it does not run as long as somebody looks is the best
    that can be done.
    """
    return asked if session.subscriptions and not _unwatched() else "eager"


def _unwatched() -> int:
    """How many compiled functions, or parts of them, nobody watched when they were compiled."""
    return sum(code not in _WATCHED for code in private.compiled_codes())


def cannot_look_line(asked: CompiledMode, session: Session) -> str | None:
    """What a user is told at the end who gets "eager" and ``asked`` for something else."""
    count = _unwatched()
    if asked == "eager" or not session.subscriptions or not count:
        return None
    subject = "1 function or part of one was" if count == 1 else f"{count} functions or parts were"
    return (
        f"sonde: {subject} compiled before the capture began, which cannot look into them: in the "
        "steps that were wanted compiled code ran eagerly, and the numbers are eager code's; begin "
        "the capture before the first call, or use sonde run [compiled-before]"
    )


def know_watched(undo: ExitStack) -> None:
    """What is compiled until ``undo`` is closed was watched."""
    undo.callback(lambda: _WATCHED.update(private.compiled_codes()))


def on_first_compile(action: Callable[[], None], undo: ExitStack) -> None:
    """Call ``action`` before anything is compiled: now, if the compiler is there already."""
    if _COMPILER in sys.modules:
        action()
        return
    original = torch.compile

    @functools.wraps(original)
    def compile(*args: Any, **kwargs: Any) -> Any:
        put_back()
        action()
        return original(*args, **kwargs)

    def put_back() -> None:
        if torch.compile is compile:
            torch.compile = original

    torch.compile = compile
    undo.callback(put_back)
