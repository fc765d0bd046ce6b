"""The page in the user's browser, where there is one."""

from __future__ import annotations

import html
import os
import sys
import webbrowser
from contextlib import suppress
from pathlib import Path

from sonde.debugger.server_state import state_directory


def is_desktop() -> bool:
    """Whether somebody sits in front of this machine's screen, as far as that can be known."""
    if not sys.stderr.isatty() or os.environ.get("SSH_CONNECTION") or os.environ.get("CI"):
        return False
    return sys.platform == "darwin" or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )


def open_page(address: str) -> None:
    """Open ``address``. One with a token is opened by way of a file that only this user can read,
    because everybody on this machine can read what a browser is started with."""
    if "token=" not in address:
        webbrowser.open(address)
        return
    directory = state_directory()
    path = None if directory is None else directory / f"{os.getpid()}.html"
    if path is not None:
        with suppress(OSError):
            _write(path, address)
            webbrowser.open(path.as_uri())


def forget_page() -> None:
    """Remove what ``open_page`` left, once nobody needs it any more."""
    directory = state_directory()
    if directory is not None:
        (directory / f"{os.getpid()}.html").unlink(missing_ok=True)


def _write(path: Path, address: str) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        place = html.escape(address)
        file.write(
            f'<!doctype html><meta http-equiv="refresh" content="0; url={place}">'
            f'<a href="{place}">Sonde</a>\n'
        )
