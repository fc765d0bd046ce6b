"""Whether a debugger server listens at a port, and not something else."""

from __future__ import annotations

import socket
from typing import Final

from sonde.debugger.frames import FrameReader, GarbageError, framed
from sonde.wire.rank import Hello
from sonde.wire.shapes import Metadata

_SECONDS: Final = 2.0
_NOBODY: Final = Metadata("", 0, 0, 1, "", "", "", "", "", "", (), "", 0.0)
_NO_PROTOCOL: Final = -1


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
