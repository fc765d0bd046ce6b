"""MindSpore checkpoints in memory."""

from __future__ import annotations

import io
from collections.abc import Mapping

from sonde.core.files.mindspore_ckpt import CheckpointValue, decode, encode


def encode_bytes(values: Mapping[str, CheckpointValue], *, crc: bool = False) -> bytes:
    stream = io.BytesIO()
    encode(values, stream, crc=crc)
    return stream.getvalue()


def decode_bytes(data: bytes, *, name: str = "checkpoint") -> dict[str, CheckpointValue]:
    return decode(io.BytesIO(data), name=name)
