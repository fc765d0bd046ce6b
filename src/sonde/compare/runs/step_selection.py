"""Selects the steps and ranks to compare."""

from __future__ import annotations

import os
from collections.abc import Sequence

from sonde.compare.options import CompareError, CompareOptions
from sonde.compare.runs.step_work import StepWork, has_other_division
from sonde.core.text.number_text import count_text
from sonde.dump.reader import Dump


def steps_to_compare(a: Dump, b: Dump, options: CompareOptions) -> list[StepWork]:
    """The steps to compare: of each common rank, or of all ranks merged if the runs have other
    layouts."""
    if options.rank is None and _has_other_layout(a, b, options):
        _refuse_statistics(a, b)
        ranks: Sequence[int | None] = (None,)
    else:
        ranks = _common_ranks(a, b, options)
    steps = {rank: _common_steps(a, b, rank, options) for rank in ranks}
    threads = options.threads
    if threads is None and options.workers.is_chosen:
        threads = max(1, (os.cpu_count() or 1) // options.workers.count)
    perturbed = None if options.perturbed is None else str(options.perturbed)
    layouts = options.layout_a, options.layout_b
    return [
        StepWork(step, rank, options.names, {}, threads, *layouts, perturbed)
        for rank, chosen in steps.items()
        for step in chosen
    ]


def _has_other_layout(a: Dump, b: Dump, options: CompareOptions) -> bool:
    """Whether the runs have other numbers of ranks or micro-batches, or divide tensors among their
    ranks in other ways."""
    if len(a.ranks) != len(b.ranks) or options.layout_a.mesh or options.layout_b.mesh:
        return True
    common = [rank for rank in a.ranks if rank in b.ranks]
    steps = _wanted_steps(a, b, common[0], options) if common else []
    return bool(steps) and has_other_division(a, b, steps[0], common[0])


def _refuse_statistics(a: Dump, b: Dump) -> None:
    for dump in (a, b):
        step = next(iter(dump.steps()), None)
        first = next(iter(dump.tensors(step=step)), None) if step is not None else None
        if first is not None and first.path is None:
            raise CompareError(
                f"{dump.path} has statistics only; runs with other layouts ({_layout_text(a)} and "
                f"{_layout_text(b)}) are merged by their values: dump values (without --stats)",
                slug="compare-layouts",
            )


def _layout_text(dump: Dump) -> str:
    return count_text(len(dump.ranks), "rank")


def _common_ranks(a: Dump, b: Dump, options: CompareOptions) -> list[int]:
    common = [rank for rank in a.ranks if rank in b.ranks]
    if options.rank is not None:
        common = [rank for rank in common if rank == options.rank]
    if not common:
        missing = "none" if options.rank is None else f"rank {options.rank} is not"
        raise CompareError(
            f"{a.path} has the ranks {list(a.ranks)} and {b.path} {list(b.ranks)}: {missing} in "
            "both; give dumps of the same rank",
            slug="compare-ranks",
        )
    return common


def _wanted_steps(a: Dump, b: Dump, rank: int | None, options: CompareOptions) -> list[int]:
    left, right = a.steps(rank=rank), b.steps(rank=rank)
    common = [step for step in left if step in right]
    return [step for step in common if options.steps is None or step in options.steps]


def _common_steps(a: Dump, b: Dump, rank: int | None, options: CompareOptions) -> list[int]:
    wanted = _wanted_steps(a, b, rank, options)
    left, right = a.steps(rank=rank), b.steps(rank=rank)
    if not wanted:
        chosen = "" if options.steps is None else f" among {options.steps}"
        raise CompareError(
            f"the dumps have no step in common{chosen}: {a.path} has {_steps_text(a, left)}, "
            f"{b.path} has {_steps_text(b, right)}",
            slug="compare-steps",
        )
    return wanted


def _steps_text(dump: Dump, steps: Sequence[int]) -> str:
    if not steps:
        why = dump.why_no_values()
        return f"none ({why})" if why else "none"
    shown = ", ".join(str(step) for step in steps[:8])
    return shown if len(steps) <= 8 else f"{shown} and {len(steps) - 8} more"
