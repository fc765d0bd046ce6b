"""A diagnosis as an HTML page: the findings, causes first, and the loss curve with their steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sonde.core.finding import Finding, as_fields
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.report import page
from sonde.report.thinning import thinned

_CHART_POINTS = 20_000


def diagnosis_page(findings: Sequence[Finding], evidence: TrainingEvidence, program: str) -> str:
    """One self-contained page; ``program`` names what was run."""
    return page("diagnosis", f"Diagnosis of {program}", page_data(findings, evidence, program))


def page_data(
    findings: Sequence[Finding], evidence: TrainingEvidence, program: str
) -> dict[str, Any]:
    losses = np.asarray(evidence.losses, np.float64)
    kept = thinned(losses, _CHART_POINTS)
    return {
        "program": program,
        "steps": evidence.steps,
        "findings": [{**as_fields(each), "code": _code(each)} for each in findings],
        "loss_steps": kept,
        "losses": [float(losses[k]) if math.isfinite(losses[k]) else None for k in kept],
    }


def _code(found: Finding) -> list[dict[str, Any]]:
    return [
        {"file": each.file, "line": each.line, "text": each.code}
        for each in found.lines
        if each.code
    ]
