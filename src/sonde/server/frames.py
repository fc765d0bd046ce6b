"""Frames on a rank's connection: four bytes of length, then a message."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from sonde.wire.rank import MOST_BYTES, FromRank, FromServer, encoder, from_rank

MOST_HELLO_BYTES: Final = 1 << 20
_PREFIX: Final = 4


class BadFrameError(Exception):
    """The other side does not speak the protocol; the sentence says what it sent."""


async def read_message(
    reader: asyncio.StreamReader, most_bytes: int = MOST_BYTES
) -> FromRank | None:
    """The next message; None at a clean end, BadFrameError for anything that is not a message."""
    try:
        prefix = await reader.readexactly(_PREFIX)
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise BadFrameError("the connection ended within a message") from None
        return None
    length = int.from_bytes(prefix, "big")
    if length > most_bytes:
        raise BadFrameError(f"a message of {length} bytes is too long")
    try:
        data = await reader.readexactly(length)
    except asyncio.IncompleteReadError:
        raise BadFrameError("the connection ended within a message") from None
    try:
        message: FromRank = from_rank.decode(data)
        return message
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadFrameError(f"a message that cannot be read: {str(error)[:200]}") from None


def frame(message: FromServer | FromRank) -> bytes:
    data = encoder.encode(message)
    return len(data).to_bytes(_PREFIX, "big") + data
