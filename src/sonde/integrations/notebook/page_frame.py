"""Sonde's page in a frame of a notebook.

The page is served by a process of its own, ``sonde view``, one per dump; it ends with the kernel.
"""

from __future__ import annotations

import atexit
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

from sonde.core.errors import UsageError
from sonde.debugger.launch.server_registry import ServerState, running_servers
from sonde.dump.reader import Dump

_HEIGHT: Final = 720
_TOKEN_BYTES: Final = 24
_servers: dict[Path, tuple[subprocess.Popen[str], ServerState]] = {}


@dataclass(frozen=True, slots=True)
class PageFrame:
    """The page at ``address`` as a frame, with a link for notebooks that cannot show it."""

    address: str
    height: int = _HEIGHT

    def __repr__(self) -> str:
        return f"sonde: the page is at {self.address}"

    def _repr_html_(self) -> str:
        address = escape(self.address)
        return (
            f'<iframe src="{address}" title="Sonde" style="width:100%;height:{self.height}px;'
            'border:1px solid #80808080"></iframe>'
            f'<div style="font-size:12px;opacity:.7"><a href="{address}" target="_blank" '
            'rel="noopener">open this page in a tab</a></div>'
        )


def open_page(directory: str, host: str, height: int = _HEIGHT) -> PageFrame:
    """The page of the dump at ``directory``, served until the kernel ends or `end_pages`.

    ``host``: the name of this machine in the notebook's own address. A browser sends the page's
    cookie only if both are the same. UsageError if the server does not start.
    """
    path = Path(os.path.abspath(directory))
    Dump(path)  # Says what is wrong with a directory that is no dump.
    process, state = _servers.get(path, (None, None))
    if process is None or state is None or process.poll() is not None:
        process, state = _servers[path] = _start(path)
    address = state.address.replace(state.url, f"http://{host}:{state.port}", 1)
    return PageFrame(address, height)


def end_pages() -> None:
    """End the servers of all pages."""
    while _servers:
        _, (process, _) = _servers.popitem()
        _end(process)


def _start(path: Path) -> tuple[subprocess.Popen[str], ServerState]:
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    command = [sys.executable, "-m", "sonde.debugger.launch.guard", str(int(signal.SIGTERM))]
    command += ["view", "--no-browser", "--in-frame", str(path)]
    with tempfile.TemporaryFile("w+") as messages:  # A pipe that is not read could be full.
        process = subprocess.Popen(
            command,
            env={**os.environ, "SONDE_DEBUGGER_TOKEN": token},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=messages,
            text=True,
            start_new_session=True,  # Interrupting the kernel does not reach it.
        )
        assert process.stdout is not None
        process.stdout.readline()  # It prints its address when it is ready, or ends.
        state = next((each for each in running_servers() if each.token == token), None)
        if state is None:
            _end(process)
            messages.seek(0)
            *_, last = "the server printed no message", *messages.read().splitlines()
            why = last.removeprefix("sonde: ")
            raise UsageError(f"the page cannot be shown: {why}", slug="server-start")
    atexit.register(end_pages)
    return process, state


def _end(process: subprocess.Popen[str]) -> None:
    """Close the server's standard input, which ends it."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.stdout.close()
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
