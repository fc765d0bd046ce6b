"""Keeps the recorder's hook and mode away from ``torch.compile``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack

from sonde.adapters.torch.compiled.gate import on_first_compile


def watch_compiler(
    hidden: Callable[[], AbstractContextManager[None]],
    begins: Callable[[], None],
    undo: ExitStack,
) -> None:
    """Trace frames inside ``hidden()``, and call ``begins`` before a compiled function runs."""

    def start() -> None:
        # Imports the compiler, which the program is about to do anyway.
        from sonde.adapters.torch.compiled import compiler_private

        compiler_private.hide_while_tracing(hidden, undo)
        compiler_private.watch_entries(begins, undo, with_existing=True)

    on_first_compile(start, undo)
