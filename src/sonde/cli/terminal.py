"""The console on which commands print: it executes no control sequence of a text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.segment import Segment

from sonde.core.text.terminal_text import printable


class Terminal(Console):
    """Rich's console. Texts come from files and ranks, styles from Rich: control characters in a
    text are printed as escapes, wherever in a table or a line they are."""

    def render(self, *arguments: Any, **options: Any) -> Iterable[Segment]:
        for segment in super().render(*arguments, **options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(printable(segment.text, keep="\n"), segment.style)
