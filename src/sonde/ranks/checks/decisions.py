"""Ranks decide differently: learning rate, loss scale, skipped steps, modes, parameters in use."""

from __future__ import annotations

from collections.abc import Iterator

from sonde.ranks.check import Mismatch, StepCheck, finding
from sonde.ranks.job_step import JobStep, ranks_text, split
from sonde.ranks.report import EVAL_MODE


def judge(step: JobStep) -> Iterator[Mismatch]:
    groups = step.groups("data")
    for group in groups:
        names = dict.fromkeys(name for rank in group for name in step.reports[rank].decisions)
        for name in names:
            values = {rank: step.reports[rank].decisions.get(name, "none") for rank in group}
            if len(sets := split(values)) > 1:
                yield _mismatch(step, group, name, values, sets)


def _mismatch(
    step: JobStep, group: tuple[int, ...], name: str, values: dict[int, str], sets: list[list[int]]
) -> Mismatch:
    few, many = sets[-1], sets[0]
    return Mismatch(
        finding(
            "decisions-differ",
            "established",
            f"{name} is {values[few[0]]} on {ranks_text(few)} and {values[many[0]]} on "
            f"{ranks_text(many)}, in step {step.step}",
            step=step.step,
            ranks=few,
            evidence={"what": name, "values": values},
            advice="call train() again after an evaluation, on each rank that has called eval()"
            if name == EVAL_MODE
            else f"let all ranks decide alike: compute {name} from what all ranks have, or "
            "broadcast it",
            places=(step.reports[few[0]].source,),
        ),
        subject=f"{name} {group}",
        strikes=2,
    )


CHECK = StepCheck("decisions-differ", judge, "One step.")
