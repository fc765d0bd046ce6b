"""The sentence about a comparison: where two runs first differ, and why."""

from __future__ import annotations

from sonde.compare.runs.result import OpPair, RunComparison
from sonde.core.graph import shown_name
from sonde.core.text.number_text import count_text, scientific
from sonde.core.text.rank_numbers import ranks_text
from sonde.watch.headline import Headline, place_text


def comparison_headline(comparison: RunComparison) -> Headline | None:
    """Where the runs first differ; None if they do not, or cannot be compared."""
    found = comparison.first_divergence
    if found is None:
        return None
    pair, tensor = found.pair, found.tensor
    name = pair.a.rpartition("/")[2]
    title = f"{name} differs first"
    inherited = ""
    if found.inheritors:
        verb = "inherits" if found.inheritors == 1 else "inherit"
        inherited = f" {count_text(found.inheritors, 'later pair')} {verb} it."
    source = pair.source or pair.source_b
    return Headline(
        title,
        f"{title} in step {pair.step}{on_ranks(pair)}, {pair.phase},{place_text(source)} "
        f"({shown_name(pair.a)}): "
        f"{found.cause}; relative error {scientific(tensor.error)}, tolerance "
        f"{scientific(pair.allowed)}.{inherited}",
    )


def on_ranks(pair: OpPair) -> str:
    """``, on rank 1``, of the ranks at fault; empty if no single ranks are."""
    return f", on {ranks_text(pair.ranks)}" if pair.ranks else ""
