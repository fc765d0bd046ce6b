"""Merges what the ranks of a training found, each in its own process."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sonde.core.finding import Finding
from sonde.core.text.rank_numbers import ranks_text
from sonde.diagnosis.catalogue import MOST_FINDINGS, fold


def merged(
    by_rank: Mapping[int, Sequence[Finding]], between_ranks: Sequence[Finding] = ()
) -> list[Finding]:
    """At most five findings of all ranks, causes first.

    ``ranks`` in the evidence of a finding are the ranks that found it in the same place. Of a kind
    that other ranks found in other places only the most certain finding is kept, of the lowest
    rank, and ``elsewhere`` has the other places. ``between_ranks`` are findings of a comparison of
    the ranks: they belong to no rank.
    """
    holders: defaultdict[str, dict[tuple[str, ...], list[int]]] = defaultdict(dict)
    for rank, findings in sorted(by_rank.items()):
        for each in findings:
            holders[each.rule].setdefault(each.places, []).append(rank)
    named = [
        _named(each, holders[each.rule])
        for _, findings in sorted(by_rank.items())
        for each in findings
    ]
    return fold([*between_ranks, *named])[:MOST_FINDINGS]


def _named(found: Finding, holders: Mapping[tuple[str, ...], Sequence[int]]) -> Finding:
    ranks = holders[found.places]
    evidence = {**found.evidence, "ranks": list(ranks)}
    others = {places: held for places, held in holders.items() if places != found.places}
    if others:
        evidence["elsewhere"] = [
            f"{ranks_text(held)}: {', '.join(places) or 'unknown'}"
            for places, held in others.items()
        ]
    return replace(found, evidence=evidence, rank=ranks[0] if len(ranks) == 1 else None)
