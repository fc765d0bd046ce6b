"""Findings of the checks of ``sonde.train``: kind, status and advice are those of the catalogue."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from sonde.core.finding import Finding
from sonde.diagnosis.kinds import clause, kinds
from sonde.train.update_reasons import UpdateReason

_GRADIENT_KINDS: Final = {
    "missing": "no-gradient",
    "zero": "gradient-zero",
    "underflow": "half-gradient-underflow",
    "not in the optimizer": "weight-not-in-optimizer",
    "too small for the precision": "low-precision-update-lost",
    "vanishing": "vanishing-gradient",
    "exploding": "exploding-gradient",
    "not finite": "gradient-not-finite",
}
"""The kind in the catalogue of each verdict on a gradient."""


def weight_finding(kind: str, name: str, message: str) -> Finding:
    """A finding about the weight ``name``."""
    rule = kinds()[kind]
    return Finding(
        kind,
        "error" if kind.endswith("-not-finite") else "warning",
        message,
        status=rule.status,
        advice=rule.advice,
        parameter=name,
        places=(name,),
    )


def gradient_finding(name: str, verdict: str, numbers: str) -> Finding:
    """A finding about the gradient of the weight ``name``."""
    kind = _GRADIENT_KINDS[verdict]
    is_threshold = verdict in ("vanishing", "exploding")  # The sentences are about several steps.
    text = f"gradient {verdict}" if is_threshold else clause(kind)
    shown = f" ({numbers})" if numbers else ""
    found = weight_finding(kind, name, f"{name}: {text}{shown}")
    return replace(found, detail=verdict.replace(" ", "-"))


def unchanged_finding(name: str, reason: UpdateReason) -> Finding:
    """A finding about the weight ``name``, which a step did not change."""
    numbers = f" ({reason.numbers})" if reason.numbers else ""
    message = f"{name} is unchanged: {clause(reason.kind)}{numbers}"
    found = weight_finding(reason.kind, name, message)
    return replace(found, detail=reason.cause.replace(" ", "-"))
