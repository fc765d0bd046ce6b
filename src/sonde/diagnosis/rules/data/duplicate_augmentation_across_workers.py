"""A generator that the dataset holds is copied into every worker."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.diagnosis.evidence import TrainingEvidence
from sonde.diagnosis.rule import DiagnosisRule, finding


def judge(evidence: TrainingEvidence) -> Iterator[Finding]:
    event = evidence.first("generator-in-dataset")
    if event is None:
        return
    numbers = event.numbers
    yield finding(
        "duplicate-augmentation-across-workers",
        "supported",
        f"{event.subject} draws from its generator {numbers['attribute']}, which is copied into "
        f"each of {numbers['workers']} workers: they draw the same numbers",
        step=event.step,
        where=[
            event.source,
            event.subject,
            str(numbers["attribute"]),
        ],
        evidence=dict(numbers),
        advice="seed the generator in worker_init_fn with torch.initial_seed()",
    )


RULE = DiagnosisRule(
    "duplicate-augmentation-across-workers",
    judge,
    "Fewer than 2 workers; a worker_init_fn; generators that __getitem__ and __iter__ do not name; "
    "numpy's and torch's global generators, which torch seeds for each worker.",
)
