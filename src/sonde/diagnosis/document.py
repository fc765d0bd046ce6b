"""Findings as JSON and as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sonde.core.finding import Finding, as_fields
from sonde.core.text.rank_numbers import ranks_text


def as_document(findings: Sequence[Finding]) -> dict[str, Any]:
    """The document that ``sonde diagnose --json`` prints; numbers that are not finite are texts."""
    return {"findings": [as_fields(each) for each in findings]}


def as_lines(findings: Sequence[Finding], steps: int) -> list[str]:
    """The findings for a terminal, causes first."""
    if not findings:
        if not steps:
            return ["no finding: no optimizer took a step, so there was nothing to judge"]
        return [f"no finding in {steps} {'step' if steps == 1 else 'steps'}"]
    lines: list[str] = []
    for number, found in enumerate(findings, 1):
        lines.append(f"{number}. {sentence(found)}")
        where = [*(found.places or ("unknown",)), *_on_ranks(found)]
        lines.append(f"   where: {', '.join(where)}; from step {found.step} on")
        numbers = ", ".join(
            f"{name.replace('_', ' ')} {_shown(value)}"
            for name, value in found.evidence.items()
            if name != "ranks"
        )
        if numbers:
            lines.append(f"   evidence: {numbers}")
        lines.append(f"   do: {found.advice}")
    return lines


def _on_ranks(found: Finding) -> list[str]:
    """The ranks that found it, in words; nothing where there is one process."""
    ranks = found.evidence.get("ranks")
    return [f"on {ranks_text(ranks)}"] if isinstance(ranks, (list, tuple)) else []


def announcement(found: Finding) -> str:
    """The line about a finding that is confirmed while the training runs."""
    place = f"{found.places[0]}: " if found.places else ""
    return f"{place}{sentence(found)}"


def sentence(found: Finding) -> str:
    """A finding in one line, with its status and its rule."""
    return f"{found.status}: {found.message} [{found.rule}]"


def explained(found: Finding) -> tuple[str, ...]:
    """The sentences of the symptoms that were folded under ``found``."""
    listed = found.evidence.get("explains", ())
    return tuple(map(str, listed)) if isinstance(listed, (list, tuple)) else ()


def evidence_texts(found: Finding) -> list[tuple[str, str]]:
    """The evidence in words, by name, without the symptoms that ``found`` explains."""
    return [
        (name.replace("_", " "), _shown(value))
        for name, value in found.evidence.items()
        if name != "explains"
    ]


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, (list, tuple)):
        return "; ".join(_shown(each) for each in value)
    return str(value)
