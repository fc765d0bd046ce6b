"""The server of a job, which rank 0 starts in the background and which outlives it."""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Mapping

import msgspec

from sonde.core.errors import SondeError, UsageError
from sonde.core.interruption import start_thread
from sonde.debugger.launch.server_process import JobOutput, ServerProcess


class ServerAddress(msgspec.Struct, frozen=True):
    """How a rank reaches the server of its job."""

    host: str
    port: int
    token: str
    run: str
    page: str


class JobServer:
    """Starts at once, in a thread: a job may end, or crash, a second after its process group is
    made. The server prints the findings on this process's standard error and writes them to
    ``findings_file``; it ends when no rank is connected any more, after `leave`."""

    def __init__(self, findings_file: str, environ: Mapping[str, str] = os.environ) -> None:
        self._findings_file = findings_file
        self._is_local = environ.get("LOCAL_WORLD_SIZE", "") == environ.get("WORLD_SIZE", "0") or (
            environ.get("MASTER_ADDR", "127.0.0.1") in ("127.0.0.1", "localhost", "::1")
        )
        self._process: ServerProcess | None = None
        self._error: SondeError | None = None
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._start, name="sonde-job-server", daemon=True)
        start_thread(self._thread)

    def address(self) -> ServerAddress:
        """Wait until the server runs; UsageError if it does not start."""
        self._thread.join()
        if self._process is None:
            raise self._error or UsageError("the server did not start", slug="server-start")
        host = "127.0.0.1" if self._is_local else socket.getfqdn()
        run = f"ranks-{secrets.token_hex(4)}"
        process = self._process
        return ServerAddress(host, process.rank_port, process.token, run, process.page)

    def leave(self) -> None:
        """This process needs the server no more. In a forked child nothing happens."""
        if os.getpid() == self._pid:
            self._thread.join()
            if self._process is not None:
                self._process.leave()

    def _start(self) -> None:
        stderr = os.dup(2)
        try:
            self._process = ServerProcess(
                host="127.0.0.1" if self._is_local else "0.0.0.0",
                port=0,
                rank_port=0,
                pause=False,
                lingers=True,
                job=JobOutput(stderr, self._findings_file),
            )
        except SondeError as error:
            self._error = error
        finally:
            os.close(stderr)


def starts_server(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a launcher has told this process that it is rank 0 of several."""
    size = environ.get("WORLD_SIZE", "")
    return environ.get("RANK", "") == "0" and size.isdigit() and int(size) > 1
