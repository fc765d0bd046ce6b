"""What ranks found, each for itself, is one list that names the ranks."""

from __future__ import annotations

from sonde.core.finding import Finding, severity_of
from sonde.diagnosis.document import as_document, as_lines
from sonde.diagnosis.rank_findings import merged


def made(rule: str, place: str, status: str = "established", step: int = 0) -> Finding:
    assert status in ("established", "supported", "hypothesis")
    return Finding(
        rule,
        severity_of(status),  # type: ignore[arg-type]
        f"{rule} at {place}",
        status=status,  # type: ignore[arg-type]
        places=(place,),
        step=step,
    )


def test_a_finding_of_one_rank_names_it() -> None:
    (found,) = merged({0: [], 1: [made("missing-zero-grad", "train.py:8")]})
    assert (found.rank, found.evidence["ranks"]) == (1, [1])
    assert as_lines([found], 9)[1] == "   where: train.py:8, on rank 1; from step 0 on"
    assert as_document([found])["findings"][0]["evidence"] == {"ranks": [1]}


def test_what_several_ranks_found_in_one_place_is_one_finding() -> None:
    same = made("missing-zero-grad", "train.py:8")
    (found,) = merged({rank: [same] for rank in range(3)} | {3: []})
    assert (found.rank, found.evidence["ranks"]) == (None, [0, 1, 2])
    assert "on ranks 0-2; from" in as_lines([found], 9)[1]


def test_the_places_of_other_ranks_are_named() -> None:
    first, other = made("dead-relu", "0"), made("dead-relu", "4")
    (found,) = merged({0: [first], 1: [other], 2: [other]})
    assert (found.places, found.evidence["ranks"]) == (("0",), [0])
    assert found.evidence["elsewhere"] == ["ranks 1-2: 4"]


def test_the_most_certain_of_all_ranks_is_kept() -> None:
    first, other = made("dead-relu", "0", "hypothesis"), made("dead-relu", "4")
    (found,) = merged({0: [first], 1: [other]})
    assert (found.status, found.rank) == ("established", 1)


def test_a_symptom_of_one_rank_is_explained_by_the_cause_on_another_once() -> None:
    cause, symptom = made("log-of-softmax", "train.py:3"), made("non-finite-loss", "train.py:9")
    (found,) = merged({0: [symptom], 1: [symptom], 2: [cause]})
    assert (found.rule, found.evidence["ranks"]) == ("log-of-softmax", [2])
    assert found.evidence["explains"] == ["non-finite-loss at train.py:9"]


def test_a_difference_between_ranks_belongs_to_none() -> None:
    found = merged({0: [], 1: []}, [made("ranks-differ-at-init", "0.weight")])
    assert [(each.rank, "ranks" in each.evidence) for each in found] == [(None, False)]
