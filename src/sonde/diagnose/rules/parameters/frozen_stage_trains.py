"""A model declares frozen stages, but none of its parameters is frozen."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.finding import Finding
from sonde.core.graph import Source
from sonde.diagnose.evidence import Evidence
from sonde.diagnose.rule import Rule, at, finding


def judge(evidence: Evidence) -> Iterator[Finding]:
    for event in evidence.named("freeze-declared"):
        numbers = event.numbers
        if numbers["frozen"] or not numbers["parameters"]:
            continue
        file, line = str(numbers["file"] or ""), int(numbers["line"] or 0)
        source = Source(file, line, "train", "") if file and "torch/nn" not in file else None
        name = event.subject.rpartition(".")[2]
        yield finding(
            "frozen-stage-trains",
            "supported",
            f"{event.subject} is {numbers['value']}, but none of the {numbers['parameters']} "
            "parameters is frozen: the stages that it names are trained",
            step=0,
            where=[
                source,
                name,
                str(numbers["first"] or ""),
                str(numbers["method"] or ""),
                "train",
            ],
            evidence={name: numbers["value"], "frozen": 0, "parameters": numbers["parameters"]},
            advice="freeze in __init__, too: a freeze inside train() takes effect only when the "
            f"program calls model.train(){at(source)}",
        )
        return


RULE = Rule(
    "frozen-stage-trains",
    judge,
    "Any parameter that is frozen; a declaration of 0, -1 or False.",
)
