"""The result of every check, and its form in JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from html import escape
from typing import Any, Literal, cast, get_args

from sonde.core.graph import Source
from sonde.core.keys import TensorKey
from sonde.core.text.html_text import COLOURS, code, framed, line, table

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

    def _repr_html_(self) -> str:
        """The finding in a notebook."""
        colour = COLOURS[self.severity]
        facts = [(name, str(_plain(value))) for name, value in self.evidence.items()]
        rows = [
            ("where", ", ".join(places_of(self))),
            ("step", "" if self.step is None else str(self.step)),
            *((name.replace("_", " "), text) for name, text in facts),
            ("do", self.advice),
        ]
        return framed(
            line(f"{self.status}: {self.rule}", colour=colour, bold=True),
            line(self.message),
            *(code(each.code) for each in lines_of(self)[:1] if each.code),
            table((), [(escape(name), escape(text)) for name, text in rows if text]),
            colour=colour,
        )


def lines_of(found: Finding) -> tuple[Source, ...]:
    """The source lines of a finding, the most exact first."""
    return found.lines or (() if found.source is None else (found.source,))


def places_of(found: Finding) -> tuple[str, ...]:
    """Where a finding is, in words: its places, else its line, op, parameter and rank."""
    if found.places:
        return found.places
    op = found.op or (None if found.where is None else found.where.op)
    named = [*map(str, lines_of(found)[:1]), op, found.parameter]
    named += [] if found.rank is None else [f"rank {found.rank}"]
    return tuple(dict.fromkeys(each for each in named if each))


_SEVERITIES: dict[str, Severity] = {
    "established": "error",
    "supported": "warning",
    "hypothesis": "info",
}


def severity_of(status: EvidenceStatus) -> Severity:
    """The severity of a diagnosis, which follows from how certain it is."""
    return _SEVERITIES[status]


def as_fields(found: Finding) -> dict[str, Any]:
    """The finding in the form of ``sonde diagnose --json``; numbers that are not finite are
    texts."""
    return {
        "kind": found.rule,
        "detail": found.detail,
        "status": found.status,
        "message": found.message,
        "where": list(found.places),
        "step": found.step,
        "evidence": {name: _plain(value) for name, value in found.evidence.items()},
        "advice": found.advice,
    }


def with_lines(found: Finding) -> dict[str, Any]:
    """`as_fields`, and the source lines."""
    return {
        **as_fields(found),
        "lines": [
            {"file": each.file, "line": each.line, "function": each.function, "code": each.code}
            for each in lines_of(found)
        ],
    }


def from_fields(given: Any) -> Finding:
    """The finding that `with_lines` wrote; ValueError for anything else."""
    if not isinstance(given, dict) or given.get("status") not in get_args(EvidenceStatus):
        raise ValueError("not a finding with a status")
    texts = [given.get(name, "") for name in ("kind", "detail", "message", "advice")]
    evidence, where, step = given.get("evidence", {}), given.get("where", []), given.get("step")
    if not all(isinstance(text, str) for text in texts) or not isinstance(evidence, dict):
        raise ValueError("a finding with a field of the wrong type")
    if not isinstance(where, list) or not (step is None or isinstance(step, int)):
        raise ValueError("a finding with a field of the wrong type")
    status = cast(EvidenceStatus, given["status"])
    lines = tuple(map(_line, given.get("lines", [])))
    return Finding(
        texts[0],
        severity_of(status),
        texts[2],
        status=status,
        source=lines[0] if lines else None,
        lines=lines,
        evidence=evidence,
        advice=texts[3],
        detail=texts[1],
        step=step,
        places=tuple(map(str, where)),
    )


def _line(given: Any) -> Source:
    try:
        return Source(
            str(given["file"]), int(given["line"]), str(given["function"]), str(given["code"])
        )
    except (TypeError, KeyError) as error:
        raise ValueError(f"a finding with a damaged line: {error}") from None


def _plain(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)
