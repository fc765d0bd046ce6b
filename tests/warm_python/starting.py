"""An executable that runs programs as ``python`` does, with torch already imported."""

from __future__ import annotations

import atexit
import functools
import os
import socket
import sys
import tempfile
from pathlib import Path

from tests.warm_python.client import read_at_start

HERE = Path(__file__).parent
CLIENT = """#!{python} -ISs
import sys
sys.path.append({here!r})
import client
client.main({socket!r}, {python!r}, {given!r})
"""


@functools.cache
def warm_python() -> str:
    """The path of the executable; the first call starts the server it asks.

    ``SONDE_COLD_PYTHON=1`` gives the real Python, to find out whether a test fails for the fork.
    """
    if os.environ.get("SONDE_COLD_PYTHON"):
        return sys.executable
    folder = tempfile.TemporaryDirectory(prefix="warm-python-")
    path = Path(folder.name, "socket")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    held = start_server(path, environment)
    atexit.register(folder.cleanup)
    atexit.register(os.close, held)
    client = Path(folder.name, "python")
    client.write_text(
        CLIENT.format(
            python=sys.executable,
            here=str(HERE),
            socket=str(path),
            given=read_at_start(environment),
        )
    )
    client.chmod(0o755)
    return str(client)


def start_server(path: Path, environment: dict[str, str]) -> int:
    """Start the server; it ends when the file returned is closed.

    Not with ``subprocess``: what a test starts with that is ended when the test fails.
    """
    ends, held = os.pipe()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(64)
        listener.set_inheritable(True)
        os.posix_spawn(
            sys.executable,
            [sys.executable, str(HERE / "server.py"), str(listener.fileno())],
            environment,
            file_actions=[(os.POSIX_SPAWN_DUP2, ends, 0)],
            setsid=True,
        )
    os.close(ends)
    return held
