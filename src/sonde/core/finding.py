"""The result of every judgement."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sonde.core.graph import Source
from sonde.core.keys import TensorKey

Severity = Literal["error", "warning", "info"]
EvidenceStatus = Literal["established", "supported", "hypothesis"]
"""How certain a finding is: an invariant is broken and both sides are shown; a statistic is out
of line; the evidence suggests it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault or a hint: rule, severity, certainty, place, evidence, and what to do about it."""

    rule: str
    severity: Severity
    message: str
    status: EvidenceStatus = field(kw_only=True)
    where: TensorKey | None = None
    source: Source | None = None
    evidence: dict[str, object] = field(default_factory=dict)
    advice: str = ""
