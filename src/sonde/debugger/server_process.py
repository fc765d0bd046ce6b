"""Starts the debugger's server as a process of its own, which outlives the training."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Final

from sonde.core.errors import UsageError
from sonde.debugger.settings import DEFAULT_HOST, DEFAULT_PORT

DEFAULT_PAGE_PORT: Final = 8080
_PAGE: Final = re.compile(r"^sonde: the page is at (\S+)")
_RANKS: Final = re.compile(r"^sonde: trainings connect to port (\d+)")
_SLUG: Final = re.compile(r"(.*) \[([a-z][a-z0-9-]*)\]")
_START_SECONDS: Final = 60.0
_TOKEN: Final = "SONDE_DEBUGGER_TOKEN"


class ServerProcess:
    """A running server; ``page`` is the address to open, ``rank_port`` where ranks connect.

    It is in a session of its own, where Ctrl-C at the terminal does not reach it, and ends with
    this process at the latest (``server_guard``).
    """

    def __init__(
        self,
        *,
        host: str = DEFAULT_HOST,
        port: int | None = None,
        rank_port: int | None = None,
        token: str = "",
        pause: bool = True,
    ) -> None:
        words = [sys.executable, "-m", "sonde.debugger.server_guard", "serve", "--host", host]
        words += ["--port", str(_free(host, DEFAULT_PAGE_PORT) if port is None else port)]
        ranks = _free(host, DEFAULT_PORT) if rank_port is None else rank_port
        words += ["--debugger-port", str(ranks), "--pause" if pause else "--no-pause"]
        environ = {name: text for name, text in os.environ.items() if name != _TOKEN}
        if token:
            environ[_TOKEN] = token
        self._process = subprocess.Popen(
            words,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.page = ""
        self.rank_port = 0
        self.token = token
        self._complaints: list[str] = []
        self._is_known = threading.Event()
        for read in (self._read_words, self._read_complaints):
            threading.Thread(target=read, daemon=True).start()
        self._wait_until_known()

    def _wait_until_known(self) -> None:
        is_known = self._is_known.wait(_START_SECONDS)
        if is_known and self.rank_port:
            return
        self.end()
        said = " ".join(line.removeprefix("sonde: ") for line in self._complaints[-3:]).strip()
        what = "the debugger's server did not start"
        known = _SLUG.fullmatch(said)
        if known is not None:  # Its own words have a slug of their own.
            raise UsageError(f"{what}: {known[1]}", slug=known[2])
        raise UsageError(f"{what}: {said or 'it said nothing'}", slug="server-start")

    def _read_words(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if (page := _PAGE.match(line)) is not None:
                self.page = page[1]
                token = re.search(r"[?&]token=([^&]+)", self.page)
                self.token = token[1] if token else self.token
            elif (ranks := _RANKS.match(line)) is not None:
                self.rank_port = int(ranks[1])
                self._is_known.set()
        self._is_known.set()

    def _read_complaints(self) -> None:
        """What the server says must not fill a pipe that nobody reads."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._complaints.append(line.strip())
            del self._complaints[:-20]

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait(self) -> None:
        """Until it ends by itself; KeyboardInterrupt passes."""
        self._process.wait()

    def end(self) -> None:
        """End it, if it has not ended."""
        if self.is_running:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self._process.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=5)


def _free(host: str, port: int) -> int:
    """``port`` if nobody has it, else 0: any."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return 0
    return port
