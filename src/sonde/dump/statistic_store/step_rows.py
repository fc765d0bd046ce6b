"""The statistics of one step, as the training hands them over to be written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class StepRows:
    """The rows of one step in the order its ops ran.

    ``labels`` are what the sink calls the tensors; ``timestamps`` are int64, ``rows`` raw rows of
    float64 (``core.statistics``), both as bytes; ``digests`` has the hashes by name.
    """

    labels: Sequence[Any]
    timestamps: bytes
    rows: bytes
    digests: Mapping[str, Sequence[bytes]]
