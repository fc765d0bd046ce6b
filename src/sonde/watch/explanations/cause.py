"""The cause of NaN or Inf as data, and its words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np

from sonde.core.finding import EvidenceStatus, Finding
from sonde.watch.explanations.op_facts import Mask, TensorFacts

Kind = Literal["nan", "inf"]
WORDS: Final[dict[str, str]] = {"nan": "NaN", "inf": "Inf", "non-finite": "NaN or Inf"}


@dataclass(frozen=True, slots=True)
class Cause:
    """Why an op made NaN or Inf. ``detail`` is the kind of cause, ``text`` a clause about the op's
    inputs ("54 of its 64 inputs are negative")."""

    detail: str
    text: str
    evidence: dict[str, object] = field(default_factory=dict)
    status: EvidenceStatus = "established"
    advice: str = ""

    def finding(self) -> Finding:
        return Finding(
            "non_finite_cause",
            "error",
            self.text,
            status=self.status,
            detail=self.detail,
            evidence=dict(self.evidence),
            advice=self.advice,
        )


@dataclass(frozen=True, slots=True)
class ElementPlaces:
    """How the places of a cause and those of the NaN or Inf agree; None if there is no NaN or Inf
    where the cause is."""

    text: str
    explained: int
    bad: int

    @property
    def status(self) -> EvidenceStatus:
        return "established" if self.explained == self.bad else "supported"


def compare_places(cause: Mask, bad: Mask, kind: str) -> ElementPlaces | None:
    """Compare where the cause holds with where the output is NaN or Inf."""
    if cause.shape != bad.shape:
        return None
    both, total = int((cause & bad).sum()), int(bad.sum())
    if not both:
        return None
    word = WORDS[kind]
    if both < total:
        return ElementPlaces(f", {both} of the {total} {word} are there", both, total)
    if total == cause.sum():
        return ElementPlaces(
            f", exactly where the {word} {'is' if total == 1 else 'are'}", both, total
        )
    noun = f"the {word}" if total == 1 else f"all {total} {word}"
    return ElementPlaces(f", and {noun} {'is' if total == 1 else 'are'} there", both, total)


def number(value: float) -> str:
    """Four significant digits; whole numbers as such."""
    if np.isfinite(value) and value == int(value) and abs(value) < 1e6:
        return str(int(value))
    return f"{value:.4g}"


def share(count: int, tensor: TensorFacts, noun: str = "its {} inputs") -> str:
    """``54 of its 64 inputs``, ``all its 64 inputs``, or ``its input`` of one element."""
    if tensor.size == 1:
        return noun.format("").replace("  ", " ").removesuffix("s").strip()
    if count == tensor.size:
        return f"all {noun.format(tensor.size)}"
    return f"{count} of {noun.format(tensor.size)}"


def verb(count: int) -> str:
    return "is" if count == 1 else "are"
