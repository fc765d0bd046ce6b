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
from typing import IO, Final
from urllib.parse import unquote

from sonde.core.errors import UsageError
from sonde.debugger.settings import DEFAULT_HOST, DEFAULT_PORT

DEFAULT_PAGE_PORT: Final = 8080
END_WHEN_UNUSED: Final = signal.SIGUSR1
"""Tells a server to end once no training is connected to it."""
_PAGE: Final = re.compile(r"^sonde: the page is at (\S+)")
_ELSEWHERE: Final = re.compile(r"^sonde: from other machines it is at (\S+)")
_RANKS: Final = re.compile(r"^sonde: trainings connect to port (\d+)")
_SLUG: Final = re.compile(r"(.*) \[([a-z][a-z0-9-]*)\]")
_START_SECONDS: Final = 60.0
_LAST_WORDS_SECONDS: Final = 2.0
_TOKEN: Final = "SONDE_DEBUGGER_TOKEN"


class ServerProcess:
    """A running server; ``page`` is the address to open, ``elsewhere`` that for other machines
    where it has another, ``rank_port`` where ranks connect. UsageError if it does not start.

    A port that is None is the usual one, or, if that is taken, any.

    It is in a session of its own, where Ctrl-C at the terminal does not reach it, and ends with
    this process at the latest (``server_guard``); one that ``lingers`` when no training is
    connected to it any more.
    """

    def __init__(
        self,
        *,
        host: str = DEFAULT_HOST,
        port: int | None = None,
        rank_port: int | None = None,
        token: str = "",
        pause: bool = True,
        lingers: bool = False,
    ) -> None:
        self._last_signal = END_WHEN_UNUSED if lingers else signal.SIGTERM
        self.page = ""
        self.elsewhere = ""
        self.rank_port = 0
        self.token = token
        wanted = [
            free_port(host, DEFAULT_PAGE_PORT) if port is None else port,
            free_port(host, DEFAULT_PORT) if rank_port is None else rank_port,
        ]
        try:
            self._start(host, *wanted, pause=pause)
        except UsageError as error:
            # Somebody else may have taken a port of ours in the meantime.
            again = [0 if port is None else port, 0 if rank_port is None else rank_port]
            if error.slug != "port" or again == wanted:
                raise
            self._start(host, *again, pause=pause)

    def _start(self, host: str, port: int, rank_port: int, *, pause: bool) -> None:
        words = [sys.executable, "-m", "sonde.debugger.server_guard", str(int(self._last_signal))]
        words += ["serve", "--host", host]
        words += ["--port", str(port), "--debugger-port", str(rank_port)]
        words += ["--pause" if pause else "--no-pause"]
        environ = {name: text for name, text in os.environ.items() if name != _TOKEN}
        if self.token:
            environ[_TOKEN] = self.token
        self._process = subprocess.Popen(
            words,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._complaints: list[str] = []
        self._is_known = threading.Event()
        out, err = self._process.stdout, self._process.stderr
        assert out is not None
        assert err is not None
        self._readers = {
            threading.Thread(target=self._read_words, args=(out,), daemon=True): out,
            threading.Thread(target=self._read_complaints, args=(err,), daemon=True): err,
        }
        for reader in self._readers:
            reader.start()
        try:
            self._wait_until_known()
        except KeyboardInterrupt:
            self.end()
            raise

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

    def _read_words(self, stream: IO[str]) -> None:
        for line in stream:
            if (page := _PAGE.match(line)) is not None:
                self.page = page[1]
                token = re.search(r"[?&]token=([^&]+)", self.page)
                self.token = unquote(token[1]) if token else self.token
            elif (elsewhere := _ELSEWHERE.match(line)) is not None:
                self.elsewhere = elsewhere[1]
            elif (ranks := _RANKS.match(line)) is not None:
                self.rank_port = int(ranks[1])
                self._is_known.set()
        self._is_known.set()

    def _read_complaints(self, stream: IO[str]) -> None:
        """What the server says must not fill a pipe that nobody reads."""
        for line in stream:
            self._complaints.append(line.strip())
            del self._complaints[:-20]

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait(self) -> None:
        """Until it ends by itself; KeyboardInterrupt passes."""
        self._process.wait()

    def leave(self) -> None:
        """This process needs it no longer."""
        assert self._process.stdin is not None
        self._process.stdin.close()

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
        for reader, stream in self._readers.items():
            reader.join(_LAST_WORDS_SECONDS)
            if not reader.is_alive():
                stream.close()
        assert self._process.stdin is not None
        self._process.stdin.close()


def free_port(host: str, port: int) -> int:
    """``port`` if nobody has it, else 0: any."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return 0
    return port
