"""Findings on their way between processes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sonde.core.finding import Finding
from sonde.ranks.report import ReportError

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(tuple[Finding, ...], strict=False)


def encode_findings(findings: Sequence[Finding]) -> bytes:
    return _encoder.encode(tuple(findings))


def decode_findings(data: bytes) -> tuple[Finding, ...]:
    """The findings in ``data``; ReportError if it is something else."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise ReportError(
            f"the findings of the server cannot be read: {error}", slug="rank-report"
        ) from None
