"""Ranks that were started differently are named; numbers of the ranks themselves are not."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from sonde.ranks.job import RankJob
from sonde.ranks.report import RankDescription, StepReport


def found(*given: list[str], local: tuple[int, ...] = (), groups: bool = False) -> list[str]:
    """What is said of ranks that were started with these arguments."""
    job = RankJob()
    for rank, arguments in enumerate(given):
        ranks = tuple(range(len(given)))
        known = {"world": ranks, "group 3": (0, rank) if groups and rank else ranks}
        own = (rank, local[rank]) if local else (rank,)
        description = RankDescription(rank, len(given), known, {}, (), {})
        job.add(replace(description, arguments=tuple(arguments), own_numbers=own))
        job.add(StepReport(rank, -1))
    job.finish()
    return [each.message for each in job.findings]


def test_other_value_of_an_option_is_named_with_it() -> None:
    (message,) = found(["--lr", "0.1"], ["--lr", "0.1"], ["--lr", "0.2"])
    assert message == (
        "argument 2 of the program (after --lr) is 0.2 on rank 2 and 0.1 on ranks 0-1"
    )


def test_argument_that_one_rank_lacks_is_named() -> None:
    (message,) = found(["a", "--debug"], ["a"], ["a", "--debug"])
    assert "argument 2 of the program is not given on rank 1 and --debug on ranks 0, 2" in message


@pytest.mark.parametrize(
    "given",
    [
        [["--rank", "0"], ["--rank", "1"]],
        [["--rank=0", "run0"], ["--rank=1", "run0"]],
        [["out/run1/rank_00"], ["out/run1/rank_01"]],
        [["--host", "10.0.0.7:29500"], ["--host", "10.0.0.8:29500"]],
        [["--lr=0.1"], ["--lr=0.1"]],
    ],
)
def test_numbers_of_the_ranks_and_addresses_may_differ(given: list[list[str]]) -> None:
    assert found(*given) == []


def test_number_of_the_process_on_its_machine_may_differ() -> None:
    given = [["--local_rank=0"], ["--local_rank=1"], ["--local_rank=0"], ["--local_rank=1"]]
    assert found(*given, local=(0, 1, 0, 1)) == []


@pytest.mark.parametrize("given", [[["--seed=1"], ["--seed=0"]], [["--seed=5"], ["--seed=1"]]])
def test_number_of_another_rank_is_no_own_number(given: list[list[str]]) -> None:
    assert len(found(*given)) == 1


def test_group_that_has_other_ranks_is_named() -> None:
    (message,) = found([], [], [], groups=True)
    assert message == "group 3 has ranks 0-1 on rank 1 and ranks 0-2 on rank 0"
