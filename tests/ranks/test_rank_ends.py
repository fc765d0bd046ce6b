"""Which rank ended a job: that which stopped, not those which lost it or which were ended then."""

from __future__ import annotations

import pytest

from sonde.core.finding import Finding
from sonde.ranks.ends import INTERRUPTED, RaisedError, RankEnds
from sonde.ranks.job import RankJob
from sonde.ranks.report import CollectiveReport, LoopReport, RankDescription, StepReport

BAD_SAMPLE = RaisedError("ValueError", "sample 7 is empty", "train.py:20")
PEER_GONE = RaisedError("RuntimeError", "Connection closed by peer", "train.py:31")
LATER = 2.0
"""Seconds after which an end is certain to be later."""


def stopped(ends: RankEnds, *, is_over: bool = True, steps: dict[int, int] | None = None) -> object:
    found = ends.first_stopped({0: 3, 1: 3} if steps is None else steps, is_over=is_over)
    return None if found is None else (found.rank, found.error)


@pytest.mark.parametrize("lost_at", [0.0, 0.05])
def test_lost_rank_is_the_cause_of_an_exception_that_is_noticed_first(lost_at: float) -> None:
    ends = RankEnds()
    ends.end(1, PEER_GONE, 0.0)
    ends.lose(0, lost_at)
    assert stopped(ends) == (0, None)


def test_rank_that_raises_is_the_cause_of_one_that_is_killed_later() -> None:
    ends = RankEnds()
    ends.end(1, BAD_SAMPLE, 0.0)
    ends.lose(0, LATER)
    assert stopped(ends) == (1, BAD_SAMPLE)


def test_first_of_two_lost_ranks_is_named() -> None:
    ends = RankEnds()
    ends.lose(1, 0.0)
    ends.lose(0, LATER)
    assert stopped(ends) == (1, None)


def test_of_ranks_lost_together_the_one_with_fewer_steps_is_named() -> None:
    ends = RankEnds()
    ends.lose(1, 0.0)
    ends.lose(0, 0.01)
    assert stopped(ends, steps={0: 2, 1: 3}) == (0, None)


def test_exception_is_judged_when_all_have_ended() -> None:
    ends = RankEnds()
    ends.end(1, BAD_SAMPLE, 0.0)
    assert stopped(ends, is_over=False) is None
    ends.end(0, PEER_GONE, LATER)
    assert stopped(ends) == (1, BAD_SAMPLE)


def test_exception_of_all_ranks_at_one_line_stops_no_single_rank() -> None:
    ends = RankEnds()
    ends.end(0, BAD_SAMPLE, 0.0)
    ends.end(1, RaisedError("ValueError", "sample 9 is empty", "train.py:20"), LATER)
    assert stopped(ends) is None


def test_interrupted_job_stops_no_single_rank() -> None:
    ends = RankEnds()
    ends.end(0, RaisedError(INTERRUPTED), 0.0)
    ends.lose(1, LATER)
    assert stopped(ends) is None


def test_rank_that_leaves_at_once_after_its_last_step_has_not_stopped() -> None:
    ends = RankEnds()
    ends.end(1, None, 0.0)
    ends.lose(0, 0.01)
    assert stopped(ends) is None
    assert stopped(ends, steps={0: 3, 1: 5}) == (0, None)


def test_rank_that_left_its_loop_is_the_cause_of_one_that_waited_for_it() -> None:
    ends = RankEnds()
    ends.end(1, None, 0.0)
    ends.end(0, PEER_GONE, LATER)
    found = ends.first_stopped({0: 3, 1: 3}, is_over=True, awaited={1})
    assert found is not None
    assert (found.rank, found.error) == (1, None)
    assert stopped(ends) == (0, PEER_GONE)  # Without a collective rank 0 failed by itself.


def test_rank_that_connects_again_has_not_ended() -> None:
    ends = RankEnds()
    ends.lose(0, 0.0)
    assert 0 in ends
    ends.resume(0)
    assert 0 not in ends
    assert stopped(ends, is_over=False) is None


def waited_for(ends: RankEnds) -> Finding:
    """Rank 0 waits in a collective that rank 1 has not come to, and which ends with ``ends``."""
    job = RankJob()
    for rank in (0, 1):
        job.add(RankDescription(rank, 2, {"world": (0, 1)}, {}, (), {}))
        job.add(StepReport(rank, 3))
        job.add(LoopReport(rank, "t.py:3", "t.py:2", ("t.py:5", "t.py:8")))
    job.add(CollectiveReport(0, "world", 0, "all_reduce", "float32", 1, "SUM", -1, "t.py:2", 4))
    (found,) = job.stopped(ends, is_over=True)
    return found


def test_line_that_leaves_the_loop_is_named() -> None:
    ends = RankEnds()
    ends.end(1, None, 0.0)
    ends.end(0, PEER_GONE, LATER)
    found = waited_for(ends)
    assert found.rank == 1
    assert "in the loop at t.py:2, which t.py:5 or t.py:8 leaves" in found.message
    assert found.places[0] == "t.py:5"


def test_rank_that_raised_has_left_no_loop() -> None:
    ends = RankEnds()
    ends.end(1, BAD_SAMPLE, 0.0)
    ends.end(0, PEER_GONE, LATER)
    found = waited_for(ends)
    assert "loop" not in found.message
    assert found.places == ("train.py:20",)
