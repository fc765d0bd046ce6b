"""Every worker of a loader gives the whole stream."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.core.graph import Source
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, at, finding


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    event = evidence.first("rows-repeated")
    if event is None:
        return
    numbers = event.numbers
    file, _, line = str(numbers["line"] or "").rpartition(":")
    source = Source(file, int(line), "__iter__", "") if file else None
    yield finding(
        "duplicate-samples-across-workers",
        "established",
        f"an epoch of the loader{at(event.source)} has {numbers['rows']} samples, of which "
        f"{numbers['distinct']} are different: each of {numbers['workers']} workers gives all of "
        f"{event.subject}",
        step=event.step,
        where=[source, event.source, event.subject],
        evidence={key: value for key, value in numbers.items() if key != "line"},
        advice="give each worker its part in __iter__, with torch.utils.data.get_worker_info()"
        f"{at(source)}",
    )


RULE = DiagnosisRule(
    "duplicate-samples-across-workers",
    judge,
    "Datasets with an index; one worker; samples that repeat in another number than the workers.",
)
