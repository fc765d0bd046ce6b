"""Messages as bytes: four bytes, the length in big-endian order, and MessagePack."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

import msgspec

from sonde.core.errors import SondeError
from sonde.wire.rank import MOST_BYTES, FromRank, FromServer, encoder, from_server

_LENGTH: Final = struct.Struct(">I")


class GarbageError(SondeError):
    """The other side sent what is no message."""


def framed(message: FromRank) -> bytes:
    """One message as it goes over the wire."""
    body = encoder.encode(message)
    if len(body) > MOST_BYTES:
        raise SondeError(
            f"a message of {len(body)} bytes is longer than the {MOST_BYTES} that may be sent",
            slug="debugger-message",
        )
    return _LENGTH.pack(len(body)) + body


class FrameReader:
    """Turns bytes as they arrive into messages of the server."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[FromServer]:
        """The messages that are whole now; GarbageError for one that cannot be read."""
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            if length > MOST_BYTES:
                raise GarbageError(f"a message of {length} bytes", slug="debugger-garbage")
            end = _LENGTH.size + length
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[_LENGTH.size : end])
            del self._buffer[:end]
            try:
                yield from_server.decode(body)
            except (msgspec.DecodeError, RecursionError) as error:
                raise GarbageError(str(error), slug="debugger-garbage") from None
