"""The judge of a job: steps in any order, strikes, causes before effects, bounded memory."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from sonde.core.errors import SondeError
from sonde.core.finding import Finding
from sonde.ranks.finding_codec import decode_findings, encode_findings
from sonde.ranks.job import RankJob
from sonde.ranks.report import (
    MODULES_IN_EVAL,
    GroupRole,
    Placement,
    RankActivation,
    RankDescription,
    RankGradient,
    RankOp,
    RankReport,
    RankTensor,
    SpotDigests,
    SpotReport,
    StepReport,
    decode,
    encode,
)

WEIGHT = RankTensor("weight", "parameter", (4, 4), "float32", (Placement("world", "replicated"),))


def description(rank: int, world: int = 2) -> RankDescription:
    groups = {"world": tuple(range(world))}
    return RankDescription(rank, world, groups, {"world": "data"}, (WEIGHT,), {"torch": "2"})


def step(rank: int, number: int, digest: int = 7, **more: object) -> StepReport:
    return StepReport(rank, number, (digest,), batch_digest=rank * 1000 + number + 5, **more)  # type: ignore[arg-type]


def judged(reports: list[RankReport]) -> list[tuple[str, int | None]]:
    job = RankJob()
    for report in reports:
        job.add(report)
    job.finish()
    return [(each.rule, each.step) for each in job.findings]


def test_ranks_that_agree_give_no_finding() -> None:
    reports: list[RankReport] = [description(0), description(1)]
    reports += [step(rank, number) for number in range(-1, 20) for rank in (0, 1)]
    assert judged(reports) == []


@pytest.mark.parametrize("seed", range(5))
def test_order_of_arrival_does_not_matter(seed: int) -> None:
    """Each rank's reports keep their order; how those of the ranks mix is chance."""
    queues = [
        [step(rank, number, digest=7 + (rank if number >= 6 else 0)) for number in range(-1, 20)]
        for rank in (0, 1)
    ]
    chance = random.Random(seed)
    reports: list[RankReport] = [description(0), description(1)]
    while any(queues):
        reports.append(chance.choice([each for each in queues if each]).pop(0))
    assert judged(reports) == [("replicas-differ", 6)]


@pytest.mark.parametrize("late", [(), (0,), (1,), (0, 1)])
def test_tensors_of_a_second_optimizer_are_compared_whatever_arrives_first(
    late: tuple[int, ...],
) -> None:
    """The second description comes with step 0 running; until then the first weight changes."""
    second = replace(WEIGHT, name="second")
    queues: dict[int, list[RankReport]] = {}
    for rank in (0, 1):
        both = replace(description(rank), tensors=(WEIGHT, second), environment={"parameters": "2"})
        one = replace(description(rank), environment={"parameters": "1"})
        queues[rank] = [one, step(rank, -1), step(rank, 0, 8), both]
        queues[rank] += [StepReport(rank, -1, (8, 5)), StepReport(rank, 1, (9, 6))]
    first = [queues[rank].pop(0) for rank in (0, 1) if rank not in late]
    for rank in (0, 1):
        first += queues[rank]
    assert judged(first) == []


def test_difference_is_said_with_the_last_step_in_which_ranks_agreed() -> None:
    job = RankJob()
    for rank in (0, 1):
        job.add(description(rank))
    for number in range(-1, 12):
        for rank in (0, 1):
            job.add(step(rank, number, digest=7 + (rank if number >= 3 else 0)))
    (found,) = job.findings
    assert found.evidence["last_equal_step"] == 2
    assert "rank 1 has another weight than rank 0 after step 3" in found.message
    assert "they were equal after step 2" in found.message


def spots(number: int, *digests: int) -> SpotDigests:
    return SpotDigests(number, b"".join(each.to_bytes(8, "little") for each in digests))


def between_samples(first: dict[str, int], *, steps: int = 50) -> list[Finding]:
    """Ranks that are compared in every tenth step and in the first five, and whose weights differ
    after the step in ``first`` and later ones; -1: no element that is hashed in each step does."""
    names = ("weight", "second")
    tensors = tuple(replace(WEIGHT, name=name) for name in names)
    job = RankJob()
    for rank in (0, 1):
        job.add(replace(description(rank), tensors=tensors))
    kept: dict[int, list[SpotDigests]] = {0: [], 1: []}
    for number in range(-1, steps):
        for rank in (0, 1):
            differs = [rank and number >= abs(first[name]) for name in names]
            if number >= 0:
                hidden = [
                    each and first[name] > 0 for each, name in zip(differs, names, strict=True)
                ]
                kept[rank].append(spots(number, *(5 + each for each in hidden)))
            if number < 5 or number % 10 == 0:
                digests = tuple(7 + each for each in differs)
                job.add(SpotReport(rank, tuple(kept[rank])))
                report = StepReport(rank, number, digests)
                kept[rank] = []
            else:
                report = StepReport(rank, number)
            job.add(report)
    job.finish()
    return job.findings


def test_first_step_between_two_compared_ones_and_its_first_tensor_are_named() -> None:
    (found,) = between_samples({"weight": 19, "second": 16})
    assert found.step == 16
    assert found.evidence["tensor"] == "second"
    assert "rank 1 has another second than rank 0 after step 16: 1 of 2 parameters" in found.message
    assert found.evidence["last_equal_step"] == 10
    assert found.evidence["last_step_with_equal_spots"] == 15


def test_difference_that_only_whole_hashes_show_is_said_with_what_is_known() -> None:
    (found,) = between_samples({"weight": -16, "second": -16})
    assert found.step == 20
    assert found.evidence["tensor"] == "weight"
    assert "they were equal after step 10, and after step 19 in the few elements" in found.message


def test_hashes_of_ranks_that_compare_different_steps_are_put_together() -> None:
    """Rank 0 takes every tenth step, rank 1 every twentieth."""
    job = RankJob()
    for rank in (0, 1):
        job.add(description(rank))
    for rank, interval in ((0, 10), (1, 20)):
        kept: list[SpotDigests] = []
        for number in range(-1, 70):
            differs = bool(rank) and number >= 27
            kept.append(spots(number, 5 + differs))
            if (number % interval in (0, interval - 1) and number % 10 == 0) or number < 5:
                job.add(SpotReport(rank, tuple(kept)))
                job.add(StepReport(rank, number, (7 + differs,)))
                kept = []
            else:
                job.add(StepReport(rank, number))
    job.finish()
    (found,) = job.findings
    assert found.step == 27


@pytest.mark.parametrize(("until", "expected"), [(40, [("replicas-differ", 7)]), (20, [])])
def test_steps_after_the_last_compared_one_are_judged_at_the_end(
    until: int, expected: list[tuple[str, int]]
) -> None:
    """Fast steps are compared rarely. What has passed at the end is not reported."""
    reports: list[RankReport] = [description(0), description(1)]
    for rank in (0, 1):
        reports += [step(rank, number) for number in range(-1, 5)]
        kept = [spots(n, 5 + rank * (7 <= n < until)) for n in range(30)]
        reports.append(SpotReport(rank, tuple(kept)))
    assert judged(reports) == expected


@pytest.mark.parametrize("data", [b"", b"\x01", b"\x01" * 9, b"\x01" * 800])
def test_hashes_of_another_length_are_no_difference_nor_an_error(data: bytes) -> None:
    job = RankJob()
    for rank in (0, 1):
        job.add(description(rank))
        job.add(StepReport(rank, 0, (7,)))
    for rank in (0, 1):
        job.add(SpotReport(rank, (SpotDigests(1, data),)))
        job.add(StepReport(rank, 2, (7 + rank,)))
    (found,) = job.finish()
    assert found.step == 2


def test_cause_is_reported_instead_of_its_effect() -> None:
    reports: list[RankReport] = [description(0), description(1)]
    for number in range(-1, 10):
        for rank in (0, 1):
            own = 100 * rank + number
            gradient = RankGradient("weight", own + 1, own + 2)
            given = (gradient,) if number >= 0 else ()
            reports.append(
                step(rank, number, digest=7 + rank * max(number + 1, 0), gradients=given)
            )
    assert judged(reports) == [("gradients-not-exchanged", 0)]


def test_short_job_reports_what_is_certain_at_its_end() -> None:
    reports: list[RankReport] = [description(0), description(1)]
    reports += [step(rank, -1) for rank in (0, 1)]
    reports += [step(rank, 0, digest=7 + rank) for rank in (0, 1)]
    assert judged(reports) == [("replicas-differ", 0)]


def on_tensor_ranks(
    entries: tuple[RankActivation | None, RankActivation | None], *, gradients_differ: bool = False
) -> list[tuple[str, str, int | None]]:
    """Tensor-parallel ranks with different batches; ``entries``: the first inputs."""
    job = RankJob()
    for rank in (0, 1):
        job.add(replace(description(rank), roles={"world": "tensor"}))
        job.add(StepReport(rank, -1, (7,)))
    for number in range(5):
        for rank in (0, 1):
            own = 3 + rank * gradients_differ
            gradient = RankGradient("weight", own, 10 + rank)
            job.add(step(rank, number, gradients=(gradient,), entry=entries[rank]))
    job.finish()
    return [(each.rule, each.status, each.step) for each in job.findings]


def entry(digest: int) -> RankActivation:
    return RankActivation("0", digest, is_declared=bool(digest))


@pytest.mark.parametrize(
    ("entries", "gradients_differ", "expected"),
    [
        ((entry(5), entry(6)), False, "established"),
        ((entry(5), entry(6)), True, "established"),
        ((None, None), True, "supported"),
        ((entry(5), entry(5)), False, None),  # The program broadcasts the batch of one rank.
        ((entry(0), entry(0)), False, None),  # Each rank gives its part of a sequence.
        ((None, None), False, None),
    ],
)
def test_different_batches_of_tensor_ranks_are_the_cause_of_different_gradients(
    entries: tuple[RankActivation | None, RankActivation | None],
    gradients_differ: bool,
    expected: str | None,
) -> None:
    found = on_tensor_ranks(entries, gradients_differ=gradients_differ)
    assert found == ([("tensor-ranks-batches-differ", expected, 0)] if expected else [])


@pytest.mark.parametrize("role", ["data", "tensor"])
def test_flags_that_differ_are_named_instead_of_the_ops_that_they_change(role: GroupRole) -> None:
    job = RankJob()
    for rank in (0, 1):
        job.add(replace(description(rank), roles={"world": role}))
    for number in range(-1, 10):
        for rank in (0, 1):
            flags = {MODULES_IN_EVAL: "drop"} if rank and number >= 2 else {}
            ops = (RankOp("Mul"),) if not flags else (RankOp("Add"),)
            job.add(step(rank, number, decisions=flags, ops=ops))
    assert [(each.rule, each.step) for each in job.findings] == [("decisions-differ", 2)]
    assert "modules in eval mode: drop on rank 1, none on rank 0" in job.findings[0].message


@pytest.mark.parametrize("interval", [1, 20])
def test_unused_parameters_are_compared_in_steps_that_all_ranks_compare(interval: int) -> None:
    """Rank 1 compares half as many steps; both ranks have no gradient of the first parameter."""
    reports: list[RankReport] = [description(0), description(1)]
    for number in range(-1, 81):
        for rank in (0, 1):
            is_sampled = number < 5 or number % (interval * (rank + 1)) == 0
            is_unused = rank and interval > 1 and number >= 10
            unused = ("other", "weight") if is_unused else ("other",)
            report = step(rank, number, without_gradient=unused if is_sampled else ())
            reports.append(report if is_sampled else replace(report, digests=()))
    assert judged(reports) == ([("decisions-differ", 40)] if interval > 1 else [])


def test_ranks_are_paired_by_the_steps_of_this_run_whatever_they_call_them() -> None:
    reports: list[RankReport] = [description(0), description(1)]
    for number in range(-1, 20):
        for rank, first in ((0, 100), (1, 0)):
            shown = number if number < 0 else number + first
            digest = 8 if rank and number >= 6 else 7
            reports.append(step(rank, shown, digest, first=first))
    assert judged(reports) == [("replicas-differ", 106)]


@pytest.mark.parametrize(
    ("second", "text"),
    [
        (["a", "b"], ""),
        (["b", "a"], "another order on rank 1 than on rank 0: number 0 is b, not a"),
        (["a"], "rank 1 and rank 0 have different parameters: b is on rank 0 only"),
    ],
)
@pytest.mark.parametrize("is_inferred", [False, True])
def test_parameters_that_ranks_have_in_common_are_in_one_order(
    second: list[str], text: str, is_inferred: bool
) -> None:
    """Where nobody declares them, each rank may have some of its own: stages, experts."""
    job = RankJob()
    for rank, names in enumerate((["a", "b"], second)):
        tensors = tuple(replace(WEIGHT, name=each, is_inferred=is_inferred) for each in names)
        job.add(replace(description(rank), tensors=tensors))
        job.add(StepReport(rank, -1, tuple(7 for _ in names)))
    is_silent = not text or (is_inferred and len(second) == 1)
    assert [each.rule for each in job.findings] == [] if is_silent else ["environment-differs"]
    assert is_silent or text in job.findings[0].message


def test_collective_that_still_runs_when_the_optimizer_begins_is_named() -> None:
    job = RankJob()
    for rank in (0, 1):
        job.add(description(rank))
        job.add(step(rank, -1))
    for number in range(4):
        for rank in (0, 1):
            gradient = RankGradient("weight", 10 + rank, 20 + rank)
            job.add(step(rank, number, gradients=(gradient,), unfinished=("train.py:9",)))
    (found,) = job.findings
    assert "while the asynchronous collective at train.py:9 is running, in step 0" in found.message
    assert found.places[0] == "train.py:9"


def test_one_uneven_step_is_no_finding() -> None:
    reports: list[RankReport] = [description(0), description(1)]
    for number in range(-1, 15):
        for rank in (0, 1):
            passes = 2 if (rank, number) != (1, 7) else 1
            reports.append(step(rank, number, backward_passes=passes))
    assert judged(reports) == []


def test_rank_that_is_far_ahead_does_not_fill_memory() -> None:
    job = RankJob()
    for rank in (0, 1):
        job.add(description(rank))
    for number in range(5000):
        job.add(step(0, number))
    assert len(job._steps) <= 64
    assert job.finish() == []


def test_reports_and_findings_survive_the_wire() -> None:
    sent: tuple[RankReport, ...] = (description(1), step(1, 3))
    assert decode(encode(sent)) == sent
    job = RankJob()
    for rank in (0, 1):
        job.add(description(rank))
        job.add(step(rank, -1, digest=7 + rank))
    assert job.findings
    assert list(decode_findings(encode_findings(job.findings))) == job.findings


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x91\x91\xa4step", b"\xff" * 40, encode(())[:0]])
def test_reports_that_cannot_be_read_are_refused(data: bytes) -> None:
    with pytest.raises(SondeError):
        decode(data)
    with pytest.raises(SondeError):
        decode_findings(data)
