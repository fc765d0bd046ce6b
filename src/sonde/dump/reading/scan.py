"""Finds the dump at a path, whichever program wrote it."""

from __future__ import annotations

from pathlib import Path

from sonde.core.errors import DumpError
from sonde.dump.layout import parse_rank
from sonde.dump.reading.captured_rank import scan_captured
from sonde.dump.reading.directories import (
    RankTree,
    find_ranks,
    has_ranks,
    refuse_old_format,
    scan_rank,
)
from sonde.dump.reading.msprobe.tree import find_msprobe, scan_msprobe


def scan(path: Path) -> tuple[Path, dict[int, RankTree]]:
    """The directory of the dump at ``path``, and what each rank has; DumpError if there is none."""
    probed = find_msprobe(path)
    if probed is not None:
        found, ranks = probed
        probed_trees = {rank: scan_msprobe(rank, steps) for rank, steps in ranks.items()}
        if any(tree.steps for tree in probed_trees.values()):
            return found, probed_trees
        # A dump of Sonde may be beside a file that only has the name of msprobe's.
        if not has_ranks(path):
            problem = next(each for tree in probed_trees.values() for each in tree.problems)
            raise DumpError(str(problem), slug="json-file")
    trees = {
        rank: scan_captured(rank, root) or scan_rank(rank, root)
        for rank, root in find_ranks(path).items()
    }
    first = next(iter(trees.values()))
    refuse_old_format(first)
    root = first.layout.root
    return root if parse_rank(root.name) is None else root.parent, trees
