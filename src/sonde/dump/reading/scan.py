"""Finds the dump at a path, whichever program wrote it."""

from __future__ import annotations

from pathlib import Path

from sonde.dump.reading.directories import RankTree, find_ranks, refuse_old_format, scan_rank
from sonde.dump.reading.msprobe.tree import find_msprobe, scan_msprobe


def scan(path: Path) -> tuple[Path, dict[int, RankTree]]:
    """The directory of the dump at ``path``, and what each rank has; DumpError if there is none."""
    probed = find_msprobe(path)
    if probed is not None:
        found, ranks = probed
        return found, {rank: scan_msprobe(rank, steps) for rank, steps in ranks.items()}
    trees = {rank: scan_rank(rank, root) for rank, root in find_ranks(path).items()}
    first = next(iter(trees.values()))
    refuse_old_format(first)
    return first.layout.root.parent, trees
