"""Ranks make different numbers of backward passes in a step."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.core.text.rank_numbers import ranks_text
from sonde.ranks.check import Mismatch, StepCheck, finding
from sonde.ranks.job_step import JobStep, split


def judge(step: JobStep) -> Iterator[Mismatch]:
    for group in step.groups("data"):
        passes = {rank: step.reports[rank].backward_passes for rank in group}
        sets = split(passes)
        if len(sets) < 2:
            continue
        few, many = sets[-1], sets[0]
        yield Mismatch(
            finding(
                "backward-passes-differ",
                "established",
                f"{ranks_text(few)} made {passes[few[0]]} backward passes in step {step.step}, "
                f"{ranks_text(many)} {passes[many[0]]}",
                step=step.step,
                ranks=few,
                evidence={"passes": passes},
                advice="let all ranks accumulate the same number of micro-batches",
                places=(step.reports[few[0]].source,),
            ),
            subject=str(group),
            strikes=2,
        )


CHECK = StepCheck("backward-passes-differ", judge, "One step: the end of an epoch may be uneven.")
