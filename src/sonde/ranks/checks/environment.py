"""Ranks run in different environments: versions, settings, the order of parameters."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.ranks.check import Mismatch, StepCheck, finding
from sonde.ranks.job_step import JobStep, ranks_text, split


def judge(step: JobStep) -> Iterator[Mismatch]:
    if step.step >= 0:
        return
    known = {rank: step.descriptions[rank].environment for rank in step.reports}
    for name in dict.fromkeys(name for each in known.values() for name in each):
        values = {rank: each.get(name, "not set") for rank, each in known.items()}
        sets = split(values)
        if len(sets) < 2:
            continue
        few, many = sets[-1], sets[0]
        yield Mismatch(
            finding(
                "environment-differs",
                "supported",
                f"{name} is {values[few[0]]} on {ranks_text(few)} and {values[many[0]]} on "
                f"{ranks_text(many)}",
                step=0,
                ranks=few,
                evidence={"what": name, "values": values},
                advice=f"start all ranks with the same {name.removeprefix('the ')}",
            ),
            subject=name,
        )


CHECK = StepCheck("environment-differs", judge, "What differs by purpose, such as LOCAL_RANK.")
