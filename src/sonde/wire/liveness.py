"""Detects a connection whose other machine disappeared, by power or network failure."""

from __future__ import annotations

import contextlib
import socket
from typing import Final

GONE_SECONDS: Final = 60


def notice_absence(connection: socket.socket) -> None:
    """Make ``connection`` fail within about a minute after the other machine disappeared.

    By default it would stay open for hours, or forever if nothing is sent.
    """
    with contextlib.suppress(OSError, AttributeError):  # Not every system has all of these options.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, GONE_SECONDS // 2)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, GONE_SECONDS // 6)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * GONE_SECONDS)
