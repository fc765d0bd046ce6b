"""Where running servers can be found by the same user: one small file each, readable by nobody
else, because the token is in it."""

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

_DIRECTORY: Final = "sonde-servers"
_MOST_BYTES: Final = 64 << 10
_SECONDS: Final = 1.0


class ServerState(msgspec.Struct, frozen=True):
    """A running server. ``url`` has no token in it; ``rank_port`` None: it takes no ranks."""

    url: str
    host: str
    port: int
    rank_port: int | None
    token: str
    pid: int
    started: float

    @classmethod
    def of(cls, host: str, port: int, rank_port: int | None, token: str) -> ServerState:
        name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)
        name = f"[{name}]" if ":" in name and not name.startswith("[") else name
        url = f"http://{name}:{port}"
        return cls(url, host, port, rank_port, token, os.getpid(), time.time())

    @property
    def reachable_host(self) -> str:
        """The name by which programs of this machine find it."""
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)

    @property
    def address(self) -> str:
        """What to open in a browser: with the token, if there is one."""
        return f"{self.url}/?token={quote(self.token, safe='')}" if self.token else f"{self.url}/"


def state_directory() -> Path | None:
    """The user's own directory for such files; None if there is none that is safe."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime and os.path.isdir(runtime):
        directory = Path(runtime) / _DIRECTORY
    else:
        directory = Path(tempfile.gettempdir()) / f"{_DIRECTORY}-{os.getuid()}"
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
        found = directory.lstat()
    except OSError:
        return None
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return directory if is_ours and not found.st_mode & 0o077 else None


@contextlib.contextmanager
def announce_server(state: ServerState) -> Iterator[None]:
    """Have the file while the server runs. Without a safe directory there is none."""
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
    """For who looks for a server and starts one if there is none: other processes of this user
    wait here meanwhile. Without a safe directory nobody waits."""
    directory = state_directory()
    if directory is None:
        yield
        return
    with (directory / "starting").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def running_servers() -> list[ServerState]:
    """The servers of this user that run, the newest first; files of dead ones are removed.

    The number of a dead one may be that of another process by now, after a restart of the machine
    or in a container: it runs if its port is open.
    """
    directory = state_directory()
    found: list[ServerState] = []
    for path in sorted(directory.glob("*.json")) if directory is not None else ():
        try:
            with path.open("rb") as file:
                state = msgspec.json.decode(file.read(_MOST_BYTES), type=ServerState)
        except (OSError, msgspec.DecodeError):
            continue
        if _answers(state):
            found.append(state)
        elif not _is_alive(state.pid):
            path.unlink(missing_ok=True)
    return sorted(found, key=lambda state: state.started, reverse=True)


def _answers(state: ServerState) -> bool:
    try:
        socket.create_connection((state.reachable_host, state.port), _SECONDS).close()
    except (OSError, OverflowError, UnicodeError):
        return False
    return True


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
