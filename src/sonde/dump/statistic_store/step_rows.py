"""The statistics of one step, as the training hands them over to be written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class StepRows:
    """The rows of one step in the order its ops ran, and after them those of its signals.

    ``labels`` are what the sink calls the tensors; ``timestamps`` are int64, ``rows`` raw rows of
    float64 (``core.statistics``), both as bytes; ``digests`` has the hashes by name. The last
    ``signals`` rows are no tensors of ops: they have neither timestamps nor hashes.
    """

    labels: Sequence[Any]
    timestamps: bytes
    rows: bytes
    digests: Mapping[str, Sequence[bytes]]
    signals: int = 0

    def with_signals(self, labels: Sequence[int], rows: bytes) -> StepRows:
        """These rows, and after them those of signals."""
        return replace(
            self,
            labels=[*self.labels, *labels],
            rows=self.rows + rows,
            signals=self.signals + len(labels),
        )
