"""The table of checks of the page has a row for whatever the checks over ranks may report."""

from __future__ import annotations

from sonde.diagnosis.kinds import RANKS
from sonde.ranks.job import RankJob
from sonde.server.rank_views import ranks_view


def test_every_kind_about_ranks_has_one_row() -> None:
    rows = ranks_view(RankJob(), is_compared=True).checks
    kinds = [kind for row in rows for kind in row.kinds]
    assert len(kinds) == len(set(kinds))
    assert set(RANKS) - set(kinds) == set()
