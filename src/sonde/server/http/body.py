"""Reads and parses the body of a request, with limits on its size and time."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any, Final

import msgspec
from starlette.requests import ClientDisconnect, Request

from sonde.core.errors import UsageError
from sonde.wire.shapes import Plain

MOST_BODY_BYTES: Final = 8 << 20
MOST_DISCARDED_BYTES: Final = 8 * MOST_BODY_BYTES
BODY_SECONDS: Final = 60.0
_SEARCHED_VALUES: Final = 10_000


async def read_body(request: Request, kind: type[Plain]) -> Plain:
    """The body, decoded as ``kind``; UsageError says what is wrong with it."""
    try:
        data = await asyncio.wait_for(_read(request), BODY_SECONDS)
    except asyncio.TimeoutError:
        raise UsageError(
            f"the request body did not arrive within {BODY_SECONDS:g} s", slug="slow-body"
        ) from None
    except ClientDisconnect:
        raise UsageError("the request body is incomplete", slug="bad-request") from None
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = _non_finite(data) or str(error)
        raise UsageError(f"request body: {why}", slug="bad-request") from None


async def _read(request: Request) -> bytes:
    """The body. The rest of one that is too long is read and discarded: a client that still sends
    when the connection is closed does not get the answer."""
    data = bytearray()
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size <= MOST_BODY_BYTES:
            data += piece
        elif size > MOST_DISCARDED_BYTES:
            break
    if size > MOST_BODY_BYTES:
        raise UsageError(
            f"the request body must be at most {MOST_BODY_BYTES} bytes long", slug="too-large"
        )
    return bytes(data)


def _non_finite(data: bytes) -> str:
    """A message about a number that is NaN or too large for a float64, which JSON does not allow;
    empty if there is none among the first values: a hostile body must not occupy the server."""
    try:
        waiting: list[tuple[str, Any]] = [("", json.loads(data))]
    except (ValueError, RecursionError):
        return ""
    for _ in range(_SEARCHED_VALUES):
        if not waiting:
            break
        path, value = waiting.pop()
        if isinstance(value, float) and not math.isfinite(value):
            return f"{path or 'the value'} must be a finite number (got {value})"
        if isinstance(value, dict):
            inner = [(f"{path}.{name}" if path else name, each) for name, each in value.items()]
            waiting.extend(reversed(inner))
        elif isinstance(value, list):
            waiting.extend(reversed([(f"{path}[{n}]", each) for n, each in enumerate(value)]))
    return ""
