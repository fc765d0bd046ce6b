"""Decides how compiled code is observed, and notices the first call of ``torch.compile``."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from types import CodeType
from typing import Any, Literal

import torch

from sonde.adapters.torch import private
from sonde.capture.session import Session
from sonde.core.patching import wrap

CompiledMode = Literal["observe", "interpret", "eager"]
"""How compiled code is observed. "observe": its own kernels, with observers between them;
"interpret": its graphs, run op by op; "eager": wanted steps run uncompiled."""

_COMPILER = "torch._dynamo"
_WATCHED: weakref.WeakSet[CodeType] = weakref.WeakSet()


def possible_mode(asked: CompiledMode, session: Session) -> CompiledMode:
    """``asked``, or "eager" where nothing is observed or code was compiled before the capture.

    Code that was compiled without observers cannot be observed, so it runs eagerly in the steps
    that are.
    """
    return asked if session.subscriptions and not _unwatched() else "eager"


def _unwatched() -> int:
    """How many compiled functions, or parts of them, were compiled outside of any capture."""
    return sum(code not in _WATCHED for code in private.compiled_codes())


def compiled_before_line(asked: CompiledMode, session: Session) -> str | None:
    """The line to report at the end if `possible_mode` is "eager" and ``asked`` is not."""
    count = _unwatched()
    if asked == "eager" or not session.subscriptions or not count:
        return None
    subject = "1 function or part of one was" if count == 1 else f"{count} functions or parts were"
    return (
        f"sonde: {subject} compiled before the capture began and cannot be observed: in the "
        "observed steps compiled code ran eagerly, and the numbers are those of eager code; begin "
        "the capture before the first call, or use sonde run [compiled-before]"
    )


def know_watched(undo: ExitStack) -> None:
    """Remember, when ``undo`` is closed, that everything compiled so far was watched."""
    undo.callback(lambda: _WATCHED.update(private.compiled_codes()))


def on_first_compile(action: Callable[[], None], undo: ExitStack) -> None:
    """Call ``action`` before anything is compiled: now, if the compiler is already imported."""
    if _COMPILER in sys.modules:
        action()
        return

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def compile(*args: Any, **kwargs: Any) -> Any:
            patch.restore()
            action()
            return original(*args, **kwargs)

        return compile

    patch = wrap(torch, "compile", make, undo)
