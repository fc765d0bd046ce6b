"""Adds the lines of the program to what differs from a reference.

A comparison of dumps knows the lines of ops. Where a setting is written is known from the evidence:
the line that creates the optimizer, and the line that initialises a weight.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sonde.core.finding import Finding
from sonde.core.graph import Source
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import place


def with_lines(findings: Iterable[Finding], evidence: TrainingEvidence) -> list[Finding]:
    """The findings, each with the line at which its setting is written first, if it is known."""
    return [_at(each, _line(each, evidence)) for each in findings]


def _line(found: Finding, evidence: TrainingEvidence) -> Source | None:
    if found.detail == "initial-weights":
        return _initialised(found, evidence)
    optimizers = [each for each in evidence.optimizers if each.kind in found.places]
    return optimizers[0].created if len(optimizers) == 1 else None


def _initialised(found: Finding, evidence: TrainingEvidence) -> Source | None:
    """The last line that initialised a weight of the shape of the one that differs most."""
    shapes = {str(each.shape) for each in evidence.parameters if each.name == found.parameter}
    for event in reversed(evidence.named("init")):
        if event.subject.partition(" ")[2] in shapes:
            return event.source
    return None


def _at(found: Finding, line: Source | None) -> Finding:
    text = place(line)
    if line is None or text is None:
        return found
    lines = tuple(dict.fromkeys((line, *found.lines)))
    places = tuple(dict.fromkeys((text, *found.places)))
    return replace(found, source=line, lines=lines, places=places)
