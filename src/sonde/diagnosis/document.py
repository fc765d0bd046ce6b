"""Findings as JSON and as text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sonde.core.finding import Finding


def as_document(findings: Sequence[Finding]) -> dict[str, Any]:
    """The document that ``sonde diagnose --json`` prints; numbers that are not finite are texts."""
    return {"findings": [as_fields(each) for each in findings]}


def as_fields(found: Finding) -> dict[str, Any]:
    """One finding in the form of `as_document`."""
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


def _plain(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def as_lines(findings: Sequence[Finding], steps: int) -> list[str]:
    """The findings for a terminal, causes first."""
    if not findings:
        return [f"no finding in {steps} steps"]
    lines: list[str] = []
    for number, found in enumerate(findings, 1):
        lines.append(f"{number}. {found.status}: {found.message} [{found.rule}]")
        lines.append(f"   where: {', '.join(found.places) or 'unknown'}; from step {found.step} on")
        numbers = ", ".join(
            f"{name.replace('_', ' ')} {_shown(value)}" for name, value in found.evidence.items()
        )
        if numbers:
            lines.append(f"   evidence: {numbers}")
        lines.append(f"   do: {found.advice}")
    return lines


def announcement(found: Finding) -> str:
    """The line about a finding that is confirmed while the training runs."""
    place = f"{found.places[0]}: " if found.places else ""
    return f"{place}{found.status}: {found.message} [{found.rule}]"


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, (list, tuple)):
        return "; ".join(_shown(each) for each in value)
    return str(value)
