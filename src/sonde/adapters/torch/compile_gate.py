"""When a program first asks for torch.compile: only then its compiler is imported and watched."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Literal

import torch

from sonde.capture.session import Session

CompiledMode = Literal["observe", "interpret", "eager"]
"""How compiled code is observed: its own kernels with observers in between; its graphs op by op; or
not at all, wanted steps then run without being compiled."""

_COMPILER = "torch._dynamo"


def possible_mode(asked: CompiledMode, session: Session) -> CompiledMode:
    """``asked``, or "eager" where code was compiled before anybody could watch."""
    if not session.subscriptions or asked == "eager":
        return "eager"
    compiler = sys.modules.get(_COMPILER)
    counters = getattr(getattr(compiler, "utils", None), "counters", None)
    if counters is None or not counters["frames"].get("ok"):
        return asked
    return asked


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
