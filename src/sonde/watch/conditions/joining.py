"""Several conditions of one watchpoint, joined by AND or OR."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from sonde.watch.conditions.contract import Judgement, Value, Verdict


def join(judgements: Sequence[Judgement], how: Literal["any", "all"]) -> Judgement:
    """The judgement of all together, in three-valued logic.

    "any" is a hit as soon as one is, "all" is clear as soon as one is; what is left open by an
    undecided one is undecided, with its reason. The values are those of the conditions that
    made it so.
    """
    decisive: Verdict = "hit" if how == "any" else "clear"
    verdict: Verdict = decisive
    deciding = [each for each in judgements if each.verdict == decisive]
    if not deciding:
        open_ones = [each for each in judgements if each.verdict == "undecided"]
        deciding = open_ones or list(judgements)
        other: Verdict = "clear" if how == "any" else "hit"
        verdict = "undecided" if open_ones else other
    values: dict[tuple[str, float | None], Value] = {}
    for each in deciding:
        values.update({(value.name, value.preset): value for value in each.values})
    why = "; ".join(dict.fromkeys(each.why for each in deciding if each.why))
    return Judgement(verdict, why, tuple(values.values()))
