"""What the rules about initial weights share: the line that wrote them, and the finding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sonde.core.finding import Finding
from sonde.core.graph import Source
from sonde.diagnosis.evidence import ParameterEvidence, TrainingEvidence
from sonde.diagnosis.rule import at, finding

STRIKES = 3


def is_measured(parameter: ParameterEvidence) -> bool:
    """Whether it is trained by an optimizer, and was measured often enough."""
    is_trained = parameter.requires_grad and parameter.optimizer is not None
    return is_trained and len(parameter.samples) >= STRIKES


def initial_finding(
    evidence: TrainingEvidence,
    kind: str,
    weights: Sequence[ParameterEvidence],
    functions: Sequence[str],
    message: str,
    numbers: Mapping[str, object],
    advice: str,
) -> Finding:
    """The finding about ``weights`` that one of the ``functions`` (``zeros_``) initialised."""
    line, function = written_by(evidence, weights, functions)
    names = [each.name for each in weights]
    return finding(
        kind,
        "established",
        message,
        step=0,
        where=[line, *names[:4], *(each.rpartition(".")[0] for each in names[:4]), function],
        evidence={"weights": len(weights), **numbers},
        advice=f"{advice}{at(line)}",
    )


def written_by(
    evidence: TrainingEvidence, weights: Sequence[ParameterEvidence], functions: Sequence[str]
) -> tuple[Source | None, str | None]:
    """The last line that wrote weights of these shapes with one of ``functions``."""
    shapes = {str(each.shape) for each in weights}
    for event in reversed(evidence.named("init")):
        function, _, shape = event.subject.partition(" ")
        if function in functions and shape in shapes:
            return event.source, function
    return None, None
