"""Small pieces of HTML for notebooks: no script, no colours that need a light or a dark page.

Every text of a user's program is escaped. Borders and lines have the colour of the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

COLOURS: Final = {
    "error": "#d0342c",
    "warning": "#c27c0e",
    "info": "#3078d0",
    "fine": "#14a55a",
}
"""Colours of text that can be read on white and on black."""
_CELL: Final = "padding:2px 12px 2px 0;text-align:left;vertical-align:top;background:none"
_FRAME: Final = (
    "font-size:13px;line-height:1.45;border-left:3px solid {colour};padding:4px 0 4px 10px;"
    "margin:2px 0 6px 0;max-width:960px"
)


def framed(*parts: str, colour: str = "#808080") -> str:
    """The HTML ``parts`` with a line of ``colour`` on their left."""
    return f'<div class="sonde" style="{_FRAME.format(colour=colour)}">{"".join(parts)}</div>'


def line(text: str, *, bold: bool = False, colour: str = "", faint: bool = False) -> str:
    """One paragraph of ``text``."""
    style = "margin:0;overflow-wrap:anywhere"
    style += ";font-weight:600" if bold else ""
    style += f";color:{colour}" if colour else ""
    style += ";opacity:.7" if faint else ""
    return f'<div style="{style}">{escape(text)}</div>'


def code(text: str) -> str:
    """Source code, or a tensor as Python prints it; long lines scroll."""
    style = "margin:2px 0;padding:0;overflow-x:auto;white-space:pre;background:none;color:inherit"
    return f'<pre style="{style}">{escape(text)}</pre>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of HTML cells with a row of titles; without one if ``head`` is empty."""
    titles = "".join(
        f'<th style="{_CELL};font-weight:600;opacity:.7">{escape(each)}</th>' for each in head
    )
    lines = "".join(
        f"<tr>{''.join(f'<td style={chr(34)}{_CELL}{chr(34)}>{each}</td>' for each in row)}</tr>"
        for row in rows
    )
    begin = f"<tr>{titles}</tr>" if head else ""
    style = "border-collapse:collapse;margin:2px 0;border:0;font-size:inherit;color:inherit"
    return f'<table style="{style}">{begin}{lines}</table>'


def folded(title: str, content: str) -> str:
    """HTML ``content`` that a click on ``title`` shows; needs no script."""
    summary = f'<summary style="cursor:pointer;opacity:.7">{escape(title)}</summary>'
    return f'<details style="margin:2px 0">{summary}{content}</details>'
