"""The result of every check."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sonde.core.graph import Source
from sonde.core.keys import TensorKey

Severity = Literal["error", "warning", "info"]
EvidenceStatus = Literal["established", "supported", "hypothesis"]
"""How certain a finding is. *established*: an invariant is broken, and both sides are shown (NaN or
Inf, with the op that produced them). *supported*: a statistic is out of line. *hypothesis*: the
evidence suggests it, but does not decide it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault or a hint: rule, severity, certainty, place, evidence, advice.

    The place has those fields that are known: the tensor ``where``, or an ``op``, or a
    ``parameter``; the ``rank``; the line of the user's code (``source``). ``evidence`` has the
    measured facts by name. A diagnosis also has a more precise kind (``detail``), the ``step`` from
    which on it holds, and ``places``: texts such as ``train.py:8``, a module, a parameter;
    ``lines`` are the source lines among them, the most exact first.
    ``is_silenced``: a comment on one of its lines says that the program means it so.
    """

    rule: str
    severity: Severity
    message: str
    status: EvidenceStatus = field(kw_only=True)
    where: TensorKey | None = None
    source: Source | None = None
    evidence: dict[str, object] = field(default_factory=dict)
    advice: str = ""
    op: str | None = field(default=None, kw_only=True)
    parameter: str | None = field(default=None, kw_only=True)
    rank: int | None = field(default=None, kw_only=True)
    detail: str = field(default="", kw_only=True)
    step: int | None = field(default=None, kw_only=True)
    places: tuple[str, ...] = field(default=(), kw_only=True)
    lines: tuple[Source, ...] = field(default=(), kw_only=True)
    is_silenced: bool = field(default=False, kw_only=True)
