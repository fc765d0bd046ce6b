"""Opens the page in the user's browser, if there is one."""

from __future__ import annotations

import html
import os
import sys
import webbrowser
from contextlib import suppress
from pathlib import Path

from sonde.debugger.launch.server_registry import state_directory


def is_desktop() -> bool:
    """Whether this process runs on a desktop, and not over SSH or in a CI job."""
    if not sys.stderr.isatty() or os.environ.get("SSH_CONNECTION") or os.environ.get("CI"):
        return False
    return sys.platform == "darwin" or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )


def open_page(address: str) -> None:
    """Open ``address``, which contains the token, by a file that redirects to it and that only this
    user can read: other users can read the command line of the browser."""
    path = _redirecting_file()
    if path is not None:
        with suppress(OSError):
            _write(path, address)
            webbrowser.open(path.as_uri())


def forget_page() -> None:
    """Remove the file that ``open_page`` wrote."""
    path = _redirecting_file()
    if path is not None:
        path.unlink(missing_ok=True)


def _redirecting_file() -> Path | None:
    directory = state_directory()
    return None if directory is None else directory / f"{os.getpid()}.html"


def _write(path: Path, address: str) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        place = html.escape(address)
        file.write(
            f'<!doctype html><meta http-equiv="refresh" content="0; url={place}">'
            f'<a href="{place}">Sonde</a>\n'
        )
