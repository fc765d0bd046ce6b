"""The name of one tensor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Io = Literal["input", "output"]


@dataclass(frozen=True, slots=True, order=True)
class TensorKey:
    """One tensor of a run.

    ``order`` is the position of the op in its step, so that keys sort in execution order: inputs
    of an op before its outputs, slots ascending ("input" < "output" as text).
    """

    step: int
    order: int
    op: str
    io: Io
    slot: int

    def __str__(self) -> str:
        return f"{self.op}:{self.io}.{self.slot}@{self.step}"
