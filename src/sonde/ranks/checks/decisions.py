"""Ranks decide differently: learning rate, loss scale, skipped steps, modes, parameters in use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sonde.core.text.rank_numbers import ranks_text
from sonde.ranks.check import WINDOW_OF_SAMPLED, Mismatch, StepCheck, finding
from sonde.ranks.job_step import JobStep, split
from sonde.ranks.report import EVAL_MODE, MODULES_IN_EVAL, STEPS_BEFORE

_MOST_TEXT = 200


def judge(step: JobStep) -> Iterator[Mismatch]:
    for group in (*step.groups("data"), *step.groups("tensor")):
        names = dict.fromkeys(name for rank in group for name in step.reports[rank].decisions)
        for name in names:
            values = {rank: step.reports[rank].decisions.get(name, "none") for rank in group}
            if len(sets := split(values)) > 1:
                yield _mismatch(step, group, name, values, sets)
    if step.is_sampled:
        yield from _unused(step)


def _unused(step: JobStep) -> Iterator[Mismatch]:
    """Parameters without a gradient, which a rank looks for in compared steps only: their strikes
    are far apart."""
    for group in step.groups("data"):
        unused = {rank: set(step.reports[rank].without_gradient) for rank in group}
        on_all = set.intersection(*unused.values())
        values = {rank: ", ".join(sorted(each - on_all)) or "none" for rank, each in unused.items()}
        if len(sets := split(values)) > 1:
            yield replace(
                _mismatch(step, group, "parameters without a gradient", values, sets),
                window=WINDOW_OF_SAMPLED,
            )


def _mismatch(
    step: JobStep, group: tuple[int, ...], name: str, values: dict[int, str], sets: list[list[int]]
) -> Mismatch:
    few, many = sets[-1], sets[0]
    shown = {rank: _short(values[rank]) for rank in (few[0], many[0])}
    return Mismatch(
        finding(
            "decisions-differ",
            "established",
            f"{name}: {shown[few[0]]} on {ranks_text(few)}, {shown[many[0]]} on "
            f"{ranks_text(many)}, in step {step.step}",
            step=step.step,
            ranks=few,
            evidence={"what": name, "values": values},
            advice=_advice(name),
            places=(step.reports[few[0]].source,),
        ),
        subject=f"{name} {group}",
        strikes=2,
    )


def _advice(name: str) -> str:
    if name in (EVAL_MODE, MODULES_IN_EVAL):
        return "call train() again after an evaluation, on each rank that has called eval()"
    if name == STEPS_BEFORE:
        return "load the same checkpoint of the optimizer on all ranks"
    return f"let all ranks decide alike ({name}): from what all ranks have, or by a broadcast"


def _short(value: str) -> str:
    return value if len(value) <= _MOST_TEXT else f"{value[:_MOST_TEXT]}..."


CHECK = StepCheck("decisions-differ", judge, "One step; parameters that no rank uses.")
