"""Frames between rank and server: four bytes of length, big-endian, then a MessagePack message.

The rank reads with ``FrameReader`` from a blocking socket, the server with ``read_message`` from an
asyncio stream. Both refuse a frame that is longer than ``MOST_BYTES`` before they read its body.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Iterator
from typing import Final, TypeVar

import msgspec

from sonde.core.errors import SondeError
from sonde.wire.rank import MOST_BYTES, FromRank, FromServer, encoder, from_rank, from_server

MOST_HELLO_BYTES: Final = 1 << 20
GONE_SECONDS: Final = 60
"""How long a connection whose other machine has disappeared stays open."""
_LENGTH: Final = struct.Struct(">I")
_CUT: Final = "the connection ended within a message"

Message = TypeVar("Message")


class FrameError(SondeError):
    """The other side sent bytes that are not a message; ``message`` says why."""

    def __init__(self, message: str) -> None:
        super().__init__(message, slug="debugger-garbage")


def frame(message: FromRank | FromServer) -> bytes:
    """Encode one message. SondeError if it is longer than a frame may be."""
    body = encoder.encode(message)
    if len(body) > MOST_BYTES:
        raise SondeError(
            f"a message must be at most {MOST_BYTES} bytes long (this one has {len(body)})",
            slug="debugger-message",
        )
    return _LENGTH.pack(len(body)) + body


class FrameReader:
    """Turns bytes from the server, as they arrive, into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[FromServer]:
        """Yield the messages that are complete; FrameError for one that cannot be decoded."""
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            end = _LENGTH.size + _length(self._buffer, MOST_BYTES)
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[_LENGTH.size : end])
            del self._buffer[:end]
            yield _decode(from_server, body)


async def read_message(
    reader: asyncio.StreamReader, most_bytes: int = MOST_BYTES
) -> FromRank | None:
    """Read the next message of a rank; None if the rank closed the connection after the last."""
    try:
        prefix = await reader.readexactly(_LENGTH.size)
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise FrameError(_CUT) from None
        return None
    length = _length(prefix, most_bytes)
    try:
        body = await reader.readexactly(length)
    except asyncio.IncompleteReadError:
        raise FrameError(_CUT) from None
    message: FromRank = _decode(from_rank, body)
    return message


def _length(data: bytes | bytearray, most_bytes: int) -> int:
    length: int = _LENGTH.unpack_from(data)[0]
    if length > most_bytes:
        raise FrameError(f"a message of {length} bytes; at most {most_bytes} are allowed")
    return length


def _decode(decoder: msgspec.msgpack.Decoder[Message], body: bytes) -> Message:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FrameError(f"a message that cannot be decoded: {str(error)[:200]}") from None


def notice_absence(connection: socket.socket) -> None:
    """Make ``connection`` fail ``GONE_SECONDS`` after the other machine disappeared.

    By default it would stay open for hours, or forever if nothing is sent.
    """
    with contextlib.suppress(OSError, AttributeError):  # Not every system has all of these options.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, GONE_SECONDS // 2)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, GONE_SECONDS // 6)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * GONE_SECONDS)
