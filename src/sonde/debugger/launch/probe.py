"""Tests whether a debugger server listens at a port, and which user the port belongs to."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Final

from sonde.wire.framing import FrameError, FrameReader, frame
from sonde.wire.rank import Hello
from sonde.wire.shapes import Metadata
from sonde.wire.tls import CertificateError, Trust

_SECONDS: Final = 2.0
_NO_METADATA: Final = Metadata("", 0, 0, 1, "", "", "", "", "", "", (), "", 0.0)
_NO_PROTOCOL: Final = -1
_LISTENING: Final = "0A"


def is_server(host: str, port: int, trust: Trust | None = None) -> bool:
    """Whether a server of Sonde listens there, with TLS if ``trust`` is given.

    The probe sends a hello with an impossible protocol version, which every version of the server
    refuses; any other program closes the connection, or sends something else, or nothing.
    """
    try:
        with socket.create_connection((host, port), timeout=_SECONDS) as plain:
            connection = plain if trust is None else trust.connect(plain, host)
            connection.sendall(frame(Hello(_NO_PROTOCOL, "", "probe", _NO_METADATA, False)))
            reader = FrameReader()
            while data := connection.recv(1 << 16):
                for _ in reader.feed(data):
                    return True
    except (OSError, FrameError, CertificateError):
        pass
    return False


def is_own_port(port: int) -> bool:
    """Whether all programs that listen at a port of this machine belong to this user; True where
    the system does not show it.

    The server controls the training, so a training never connects to a server of another user
    unless the user names that server.
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
