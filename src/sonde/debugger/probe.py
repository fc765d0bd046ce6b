"""Whether a debugger server listens at a port, and not something else."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Final

from sonde.debugger.frames import FrameReader, GarbageError, framed
from sonde.wire.rank import Hello
from sonde.wire.shapes import Metadata

_SECONDS: Final = 2.0
_NOBODY: Final = Metadata("", 0, 0, 1, "", "", "", "", "", "", (), "", 0.0)
_NO_PROTOCOL: Final = -1
_LISTENING: Final = "0A"


def is_server(host: str, port: int) -> bool:
    """Ask in a way that every server of Sonde, of whatever version, answers with a refusal; what
    else listens there hangs up, says something else, or nothing."""
    try:
        with socket.create_connection((host, port), timeout=_SECONDS) as connection:
            connection.sendall(framed(Hello(_NO_PROTOCOL, "", "probe", _NOBODY, False)))
            reader = FrameReader()
            while data := connection.recv(1 << 16):
                for _ in reader.feed(data):
                    return True
    except (OSError, GarbageError):
        pass
    return False


def is_own_port(port: int) -> bool:
    """Whether nobody but this user listens at a port of this machine; True where it is not told.

    Whoever has the server has the training: what another user runs is not connected to unasked.
    """
    owners: set[int] = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text("ascii").splitlines()[1:]
        except OSError:
            continue
        for _, place, _, state, _, _, _, owner, *_ in map(str.split, lines):
            if state == _LISTENING and int(place.rpartition(":")[2], 16) == port:
                owners.add(int(owner))
    return owners <= {os.getuid()}
