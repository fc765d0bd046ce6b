"""Hyperlinks between the reports of one directory.

Each report has the list of the others near its beginning, in an element of a fixed form. Writing a
report puts the new one into the lists of the others, and the others into its own.
"""

from __future__ import annotations

import html
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec

from sonde.core.files.atomic_file import write_whole

MARK: Final = '<meta name="sonde-report" content="{kind}">'
LINKS: Final = '<script type="application/json" id="links">{links}</script>'
_BEGINNING: Final = re.compile(
    rb'<meta name="sonde-report" content="(?P<kind>[a-z]+)">\n'
    rb"<title>(?P<title>[^<]*)</title>\n"
    rb'<script type="application/json" id="links">(?P<links>[^<]*)</script>'
)
_BEGINNING_BYTES: Final = 64 * 1024
_MOST_REPORTS: Final = 50


@dataclass(frozen=True, slots=True)
class ReportLink:
    """Another report: its kind, its title and its address relative to the directory."""

    kind: str
    title: str
    address: str


def write_report(path: Path, text: str) -> None:
    """Write the page ``text`` to ``path``, and link it with the other reports of its directory.

    OSError if it cannot be written. A neighbour that cannot be read or changed stays as it is.
    """
    write_whole(path, text)
    if path.is_file():
        link_reports(path.parent)


def link_reports(directory: Path) -> None:
    """Give every report in ``directory`` the list of the others."""
    try:
        found = _reports(directory)
    except OSError:  # The directory can be written to, but not listed.
        return
    for path in found:
        others = [link for other, link in found.items() if other != path]
        try:
            _replace_links(path, others)
        except OSError:
            continue


def _reports(directory: Path) -> dict[Path, ReportLink]:
    found: dict[Path, ReportLink] = {}
    for path in sorted(directory.glob("*.html")):
        try:
            if not _is_own_file(path):
                continue
            with path.open("rb") as stream:
                match = _BEGINNING.search(stream.read(_BEGINNING_BYTES))
        except OSError:
            continue
        if match is not None:
            title = html.unescape(match["title"].decode("utf-8", "replace"))
            found[path] = ReportLink(match["kind"].decode(), title, quote(os.fsencode(path.name)))
        if len(found) == _MOST_REPORTS:
            break
    return found


def _is_own_file(path: Path) -> bool:
    """Whether the path is a file of this user, no link to one: a pipe would block its reader, and
    reports of other users stay as they are."""
    found = path.lstat()
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()


def _replace_links(path: Path, others: list[ReportLink]) -> None:
    content = path.read_bytes()
    match = _BEGINNING.search(content, 0, _BEGINNING_BYTES)
    links = encoded(others).encode()
    if match is not None and match["links"] != links:
        write_whole(path, content[: match.start("links")] + links + content[match.end("links") :])


def encoded(data: object) -> str:
    """JSON for a script element, inside which only "<" can begin an end tag or a comment."""
    return msgspec.json.encode(data).decode().replace("<", "\\u003c")
