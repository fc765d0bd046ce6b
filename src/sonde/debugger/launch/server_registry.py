"""Files by which programs of the same user find running servers: one file per server, readable by
that user only, because it contains the token."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec

from sonde.core.files.directories import make_directory
from sonde.wire.tls import Trust

_DIRECTORY: Final = "sonde-servers"
_MOST_BYTES: Final = 64 << 10
_SECONDS: Final = 1.0
_NAMES: Final = {"127.0.0.1": ("localhost",), "::1": ("localhost",)}


class ServerState(msgspec.Struct, frozen=True):
    """A running server. ``url`` is without the token; ``rank_port`` None: ranks cannot connect;
    ``fingerprint``: of its certificate, empty if it does not speak TLS."""

    url: str
    host: str
    port: int
    rank_port: int | None
    token: str
    pid: int
    started: float
    fingerprint: str = ""

    @classmethod
    def of(
        cls, host: str, port: int, rank_port: int | None, token: str, fingerprint: str = ""
    ) -> ServerState:
        name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)
        name = f"[{name}]" if ":" in name and not name.startswith("[") else name
        url = f"{'https' if fingerprint else 'http'}://{name}:{port}"
        return cls(url, host, port, rank_port, token, os.getpid(), time.time(), fingerprint)

    @property
    def trust(self) -> Trust | None:
        """The certificate that a client of this server accepts; None: no TLS."""
        return Trust(self.fingerprint) if self.fingerprint else None

    @property
    def reachable_host(self) -> str:
        """The host name by which programs on this machine reach the server."""
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)

    @property
    def address(self) -> str:
        """The address to open in a browser, with the token."""
        return f"{self.url}/?token={quote(self.token, safe='')}"


def state_directory() -> Path | None:
    """The user's directory for these files; None if other users could write to it."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime and os.path.isdir(runtime):
        directory = Path(runtime) / _DIRECTORY
    else:
        directory = Path(tempfile.gettempdir()) / f"{_DIRECTORY}-{os.getuid()}"
    try:
        make_directory(directory, mode=0o700)
        found = directory.lstat()
    except OSError:
        return None
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return directory if is_ours and not found.st_mode & 0o077 else None


@contextlib.contextmanager
def announce_server(state: ServerState) -> Iterator[None]:
    """Keep the file while the block runs. Without a safe directory there is no file."""
    directory = state_directory()
    if directory is None:
        yield
        return
    path = directory / f"{state.pid}-{state.port}.json"
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(state))
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def one_at_a_time() -> Iterator[None]:
    """Hold a lock among the processes of this user, so that of several that look for a server and
    find none only one starts it. Without a safe directory there is no lock."""
    directory = state_directory()
    if directory is None:
        yield
        return
    with (directory / "starting").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def running_servers() -> list[ServerState]:
    """The running servers of this user, the newest first; files of dead servers are removed.

    A server counts as running if its port is open. Its process id alone proves nothing: after a
    restart of the machine, or in a container, another process may have it.
    """
    directory = state_directory()
    found: list[ServerState] = []
    for path in sorted(directory.glob("*.json")) if directory is not None else ():
        try:
            with path.open("rb") as file:
                state = msgspec.json.decode(file.read(_MOST_BYTES), type=ServerState)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            continue
        if _answers(state):
            found.append(state)
        elif not _is_alive(state.pid):
            path.unlink(missing_ok=True)
    return sorted(found, key=lambda state: state.started, reverse=True)


def access_to(
    host: str, port: int, token: str = "", trust: Trust | None = None
) -> tuple[str, Trust | None]:
    """The token and the certificate for a rank that connects to ``host`` and ``port``: as given, or
    without a token those of this user's own server there. An empty token if there is none."""
    if token:
        return token, trust
    for known in running_servers():
        names = (known.host, known.reachable_host, *_NAMES.get(known.reachable_host, ()))
        if known.rank_port == port and host in names:
            return known.token, trust or known.trust
    return "", trust


def _answers(state: ServerState) -> bool:
    try:
        socket.create_connection((state.reachable_host, state.port), _SECONDS).close()
    except (OSError, OverflowError, UnicodeError):
        return False
    return True


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (PermissionError, OverflowError):
        pass
    except ProcessLookupError:
        return False
    return True
