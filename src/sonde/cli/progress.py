"""Progress bars on standard error; nothing is shown if that is not a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from sonde.cli.terminal import Terminal

Show = Callable[[str, int, int], None]


@contextmanager
def progress_bar(verb: str) -> Iterator[Show]:
    """A bar while the context lasts. The function takes what is being worked on, which follows
    ``verb``, how much of it is done, and the total."""
    console = Terminal(stderr=True)
    bar = Progress(
        TextColumn(f"{verb} {{task.description}}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task("", total=None)

        def show(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)

        yield show
