"""The form of a rule, and how a rule makes a finding."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from sonde.core.finding import EvidenceStatus, Finding, severity_of
from sonde.core.graph import Source
from sonde.diagnosis.evidence import ParameterEvidence, TrainingEvidence

KIND = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
"""The form of a kind: words with hyphens between them."""
_IGNORE = re.compile(r"#\s*sonde:\s*ignore\[([^\]]*)\]")


@dataclass(frozen=True, slots=True)
class DiagnosisRule:
    """A rule of the catalogue: ``judge`` is a pure function; ``silent`` says when it reports
    nothing although the symptom is there; ``explains`` are the kinds that are symptoms of it."""

    kind: str
    judge: Callable[[TrainingEvidence], Iterable[Finding]]
    silent: str
    explains: tuple[str, ...] = ()


def place(source: Source | None) -> str | None:
    """``train.py:8``; None without a source line."""
    return None if source is None else f"{os.path.basename(source.file)}:{source.line}"


def silences(source: Source, kind: str) -> bool:
    """Whether the line has a comment ``# sonde: ignore[kind]``; several kinds have commas between
    them."""
    return any(
        kind in (name.strip() for name in listed.split(","))
        for listed in _IGNORE.findall(source.code)
    )


def finding(
    kind: str,
    status: EvidenceStatus,
    message: str,
    *,
    step: int,
    where: Iterable[Source | str | None],
    evidence: Mapping[str, object],
    advice: str,
    detail: str = "",
) -> Finding:
    """A finding of a rule. ``where`` are source lines and observed names, the most exact first; the
    functions of the lines follow. None and repetitions are left out."""
    listed = list(where)
    texts = [place(each) if isinstance(each, Source) else each for each in listed]
    texts += [each.function for each in listed if isinstance(each, Source)]
    lines = tuple(dict.fromkeys(each for each in listed if isinstance(each, Source)))
    return Finding(
        kind,
        severity_of(status),
        message,
        status=status,
        source=lines[0] if lines else None,
        lines=lines,
        evidence=dict(evidence),
        advice=advice,
        detail=detail,
        step=step,
        is_silenced=any(silences(each, kind) for each in lines),
        places=tuple(dict.fromkeys(text for text in texts if text and text[0] != "<")),
    )


def op_of(node: str) -> str:
    """The op of a node of the graph: ``log_softmax`` for ``LogSoftmax``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", node).lower()


def at(source: Source | None) -> str:
    """`` at train.py:8``; nothing without a source line."""
    text = place(source)
    return f" at {text}" if text else ""


def outermost(entry: ParameterEvidence, reached: list[ParameterEvidence]) -> str:
    """The outermost module around ``entry`` that holds none of the ``reached`` parameters."""
    parts = entry.name.split(".")[:-1]
    for length in range(1, len(parts) + 1):
        prefix = ".".join(parts[:length])
        if not any(each.name.startswith(f"{prefix}.") for each in reached):
            return prefix
    return entry.module or entry.name
