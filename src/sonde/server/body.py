"""The body of a request: read within bounds, parsed, and what is wrong with it in words."""

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
BODY_SECONDS: Final = 60.0


async def read_body(request: Request, kind: type[Plain]) -> Plain:
    """The body as a ``kind``; UsageError names what it is not."""
    try:
        data = await asyncio.wait_for(_read(request), BODY_SECONDS)
    except asyncio.TimeoutError:
        raise UsageError(f"the body did not come in {BODY_SECONDS:g} s", slug="slow-body") from None
    except ClientDisconnect:
        raise UsageError("the body did not come whole", slug="bad-request") from None
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = _non_finite(data) or str(error)
        raise UsageError(f"the body: {why}", slug="bad-request") from None


async def _read(request: Request) -> bytes:
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > MOST_BODY_BYTES:
            raise UsageError("the body is too large", slug="too-large")
    return bytes(data)


def _non_finite(data: bytes) -> str:
    """Which number of the body is NaN or too large for a float64, which no JSON number may be;
    empty if that is not what is wrong."""
    try:
        waiting: list[tuple[str, Any]] = [("", json.loads(data))]
    except (ValueError, RecursionError):
        return ""
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, float) and not math.isfinite(value):
            return f"{path or 'it'} is {value}; it must be a finite number"
        if isinstance(value, dict):
            inner = [(f"{path}.{name}" if path else name, each) for name, each in value.items()]
            waiting.extend(reversed(inner))
        elif isinstance(value, list):
            waiting.extend(reversed([(f"{path}[{n}]", each) for n, each in enumerate(value)]))
    return ""
