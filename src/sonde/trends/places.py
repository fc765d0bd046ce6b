"""Finds the Parquet files of a run: of a dump with statistics, or of a guarded training."""

from __future__ import annotations

import os
from pathlib import Path

from sonde.dump.layout import STATISTICS, RankLayout, parse_rank
from sonde.dump.lineage import RunLineage, read_lineage
from sonde.dump.reading.directories import find_ranks


def statistic_directories(path: Path) -> dict[int, Path]:
    """The directory of each rank's Parquet files, which may be missing; DumpError if the path is
    neither a dump nor the directory of a guard."""
    guarded = _ranks_below(path / STATISTICS)
    if guarded:
        return guarded
    return {rank: RankLayout(root).statistics for rank, root in find_ranks(path).items()}


def run_lineages(path: Path) -> dict[int, RunLineage]:
    """The lineage of each rank of a dump or guard that has one; DumpError as above."""
    found = {
        rank: read_lineage(each) or read_lineage(RankLayout(each.parent).metadata)
        for rank, each in statistic_directories(path).items()
    }
    return {rank: each for rank, each in found.items() if each is not None}


def _ranks_below(directory: Path) -> dict[int, Path]:
    try:
        names = os.listdir(directory)
    except OSError:
        return {}
    found = {rank: directory / name for name in names if (rank := parse_rank(name)) is not None}
    return dict(sorted(found.items()))
