"""Findings as the debugger's page gets them."""

from __future__ import annotations

from collections.abc import Sequence

from sonde.core.finding import Finding
from sonde.diagnosis.document import evidence_texts, explained
from sonde.wire.convert import source_line
from sonde.wire.shapes import DiagnosisView, EvidenceText, FindingView


def diagnosis_view(findings: Sequence[Finding], steps: int, *, is_over: bool) -> DiagnosisView:
    return DiagnosisView(steps, is_over, tuple(map(finding_view, findings)))


def finding_view(found: Finding) -> FindingView:
    lines = found.lines or (() if found.source is None else (found.source,))
    return FindingView(
        kind=found.rule,
        detail=found.detail,
        status=found.status,
        message=found.message,
        where=found.places,
        step=found.step,
        evidence=tuple(EvidenceText(name, value) for name, value in evidence_texts(found)),
        explains=explained(found),
        advice=found.advice,
        lines=tuple(map(source_line, lines)),
    )
