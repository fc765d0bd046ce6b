"""A finding as plain data for JSON, and back."""

from __future__ import annotations

import math
from typing import Any, cast, get_args

from sonde.core.finding import EvidenceStatus, Finding, Severity
from sonde.core.graph import Source

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
    lines = found.lines or (() if found.source is None else (found.source,))
    return {
        **as_fields(found),
        "lines": [
            {"file": each.file, "line": each.line, "function": each.function, "code": each.code}
            for each in lines
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
