"""The result of every judgement."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sonde.core.graph import Source
from sonde.core.keys import TensorKey

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What was judged, how bad it is, where, on which evidence, and what to do about it."""

    rule: str
    severity: Severity
    message: str
    where: TensorKey | None = None
    source: Source | None = None
    evidence: dict[str, object] = field(default_factory=dict)
    advice: str = ""
