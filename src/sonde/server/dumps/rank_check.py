"""Compares the ranks of a dump for the page."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from sonde.dump.reader import Dump
from sonde.ranks.dump_reports import reports_of
from sonde.ranks.job import RankJob


@lru_cache(maxsize=4)
def judged(path: Path) -> RankJob:
    """The comparison of the ranks of a dump, once for a directory; reads all its weights."""
    job = RankJob()
    dump = Dump(path)
    if len(dump.ranks) > 1:
        for report in reports_of(dump):
            job.add(report)
        job.finish()
    return job
