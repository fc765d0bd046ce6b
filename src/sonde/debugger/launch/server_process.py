"""Starts the debugger server as a separate process."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final
from urllib.parse import unquote

from sonde.core.errors import UsageError
from sonde.core.threads.thread_event import ThreadEvent
from sonde.debugger.settings import DEFAULT_HOST, DEFAULT_PORT
from sonde.wire.tls import Trust, server_certificate

DEFAULT_PAGE_PORT: Final = 8080
END_WHEN_UNUSED: Final = signal.SIGUSR1
"""The signal that tells a server to end once no training is connected to it."""
_PAGE: Final = re.compile(r"^sonde: the page is at (\S+)")
_ELSEWHERE: Final = re.compile(r"^sonde: from other machines it is at (\S+)")
_RANKS: Final = re.compile(r"^sonde: trainings connect to port (\d+)")
_SLUG: Final = re.compile(r"(.*) \[([a-z][a-z0-9-]*)\]")
_START_SECONDS: Final = 60.0
_LAST_OUTPUT_SECONDS: Final = 2.0
_SIGNAL_SECONDS: Final = 1.0
_TOKEN: Final = "SONDE_DEBUGGER_TOKEN"


@dataclass(frozen=True, slots=True)
class JobOutput:
    """Where a server prints the findings about the ranks of a job: an open file descriptor, and a
    file, empty for none."""

    stderr: int
    findings_file: str


class ServerProcess:
    """A server that this process started. UsageError if it does not start.

    ``page`` is the address to open in a browser, ``elsewhere`` the address for other machines if
    that differs, ``rank_port`` the port for ranks. A port that is None is the default port, or any
    free port if that is taken. ``profile``: where the profile is that graphs are coloured by.
    ``logdir``: directories with event files that the page shows.

    The server runs in its own session, so that Ctrl-C at the terminal does not reach it. It ends
    when this process ends (``launch.guard``), or, with ``lingers``, when after that no training is
    connected to it any more. ``job``: it prints and stores the findings about the ranks of a job.
    """

    def __init__(
        self,
        *,
        host: str = DEFAULT_HOST,
        port: int | None = None,
        rank_port: int | None = None,
        token: str = "",
        certfile: str = "",
        keyfile: str = "",
        profile: str = "",
        logdir: Sequence[Path] = (),
        pause: bool = True,
        lingers: bool = False,
        job: JobOutput | None = None,
    ) -> None:
        self._job = job
        self._last_signal = END_WHEN_UNUSED if lingers else signal.SIGTERM
        self.page = ""
        self.elsewhere = ""
        self.rank_port = 0
        self.token = token
        certificate = server_certificate(certfile, keyfile)
        self.fingerprint = "" if certificate is None else certificate.fingerprint()
        self._options = ["--certfile", certfile, "--keyfile", keyfile] if certfile else []
        self._options += ["--profile", profile] if profile else []
        self._options += [word for each in logdir for word in ("--logdir", str(each))]
        wanted = [
            free_port(host, DEFAULT_PAGE_PORT) if port is None else port,
            free_port(host, DEFAULT_PORT) if rank_port is None else rank_port,
        ]
        try:
            self._start(host, *wanted, pause=pause)
        except UsageError as error:
            # Another program may have taken a port since ``free_port`` tested it.
            again = [0 if port is None else port, 0 if rank_port is None else rank_port]
            if error.slug != "port" or again == wanted:
                raise
            self._start(host, *again, pause=pause)

    def _start(self, host: str, port: int, rank_port: int, *, pause: bool) -> None:
        command = [sys.executable, "-m", "sonde.debugger.launch.guard", str(int(self._last_signal))]
        command += ["serve", "--host", host]
        command += ["--port", str(port), "--debugger-port", str(rank_port)]
        command += ["--pause" if pause else "--no-pause", *self._options]
        if self._job is not None:
            command += ["--job-stderr", str(self._job.stderr)]
            command += ["--job-findings", self._job.findings_file]
        environ = {name: text for name, text in os.environ.items() if name != _TOKEN}
        if self.token:
            environ[_TOKEN] = self.token
        self._process = subprocess.Popen(
            command,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            pass_fds=() if self._job is None else (self._job.stderr,),
        )
        self._errors: deque[str] = deque(maxlen=3)
        self._is_known = ThreadEvent()
        out, err = self._process.stdout, self._process.stderr
        assert out is not None
        assert err is not None
        self._readers = {
            threading.Thread(target=self._read_output, args=(out,), daemon=True): out,
            threading.Thread(target=self._read_errors, args=(err,), daemon=True): err,
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
        said = " ".join(self._errors).strip()
        what = "the debugger server did not start"
        known = _SLUG.fullmatch(said)
        if known is not None:  # The server's own message has a slug of its own.
            raise UsageError(f"{what}: {known[1]}", slug=known[2])
        raise UsageError(f"{what}: {said or 'it printed no message'}", slug="server-start")

    def _read_output(self, stream: IO[str]) -> None:
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

    def _read_errors(self, stream: IO[str]) -> None:
        """Read standard error to the end: a full pipe would block the server."""
        for line in stream:
            self._errors.append(line.strip().removeprefix("sonde: "))

    @property
    def trust(self) -> Trust | None:
        """The certificate that clients of this server accept; None: no TLS."""
        return Trust(self.fingerprint) if self.fingerprint else None

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait(self) -> None:
        """Wait until the server ends; KeyboardInterrupt is passed on.

        A signal that arrives just before a blocking call does not interrupt it: its handler runs
        when the call returns. So no call blocks for long.
        """
        while self.is_running:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_SIGNAL_SECONDS)

    def leave(self) -> None:
        """Close the server's standard input: this process does not need the server any more."""
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
            reader.join(_LAST_OUTPUT_SECONDS)
            if not reader.is_alive():
                stream.close()
        assert self._process.stdin is not None
        self._process.stdin.close()


def free_port(host: str, port: int) -> int:
    """``port`` if it is free, else 0, which means any."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return 0
    return port
