"""Random numbers that act on replicated values differ between the ranks that replicate them."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.ranks.check import Mismatch, StepCheck, finding
from sonde.ranks.job_step import JobStep, ranks_text, split


def judge(step: JobStep) -> Iterator[Mismatch]:
    for group in step.groups("tensor"):
        digests = {rank: step.reports[rank].random_digest for rank in group}
        if not all(digests.values()) or len(sets := split(digests)) < 2:
            continue
        yield Mismatch(
            finding(
                "random-states-differ",
                "established",
                f"{ranks_text(sets[-1])} drew other random numbers than {ranks_text(sets[0])} for "
                f"dropout on replicated values, in step {step.step}",
                step=step.step,
                ranks=sets[-1],
                evidence={"states": {rank: f"{each:016x}" for rank, each in digests.items()}},
                advice="give the ranks of a tensor-parallel group the same random state where "
                "dropout acts on replicated values",
            ),
            subject=str(group),
            strikes=2,
        )


CHECK = StepCheck("random-states-differ", judge, "Steps without dropout on replicated values.")
