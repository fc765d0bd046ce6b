"""Each planted fault of a distributed training is found, and healthy ones are silent."""

from __future__ import annotations

import pickle
import subprocess
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from tests.adapters.torch.ranks import planted_catalogue as planted
from tests.warm_python.starting import warm_python

from sonde.core.finding import Finding
from sonde.ranks.job import RankJob

Results = dict[str, list[dict[str, Any]]]


def _run(world: int, directory: Path, *more: str) -> Results:
    """Run all trainings of ``world`` ranks in one set of processes."""
    module = "tests.adapters.torch.ranks.run_planted"
    command = [warm_python(), "-m", module]
    processes = [
        subprocess.Popen([*command, str(rank), str(world), str(directory), *more])
        for rank in range(world)
    ]
    codes = [each.wait(timeout=800) for each in processes]
    assert codes == [0] * world
    found: Results = {}
    for path in sorted(directory.glob("*.pickle")):
        found.setdefault(path.name.split(".")[0], []).append(pickle.loads(path.read_bytes()))
    return found


@pytest.fixture(scope="module")
def of_two(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return _run(2, tmp_path_factory.mktemp("two"))


@pytest.fixture(scope="module")
def of_four(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return _run(4, tmp_path_factory.mktemp("four"))


def judged(results: list[dict[str, Any]]) -> list[Finding]:
    """The findings over the reports of all ranks, as they would arrive: one of each in turn."""
    job = RankJob()
    for reports in zip_longest(*(each["reports"] for each in results)):
        for report in reports:
            if report is not None:
                job.add(report)
    job.finish()
    return job.findings


def _check_fault(results: Results, name: str, expected: planted.Fault) -> None:
    ranks = results[name]
    assert [each["errors"] for each in ranks] == [("", "")] * len(ranks)
    assert all(each["is_same"] for each in ranks)
    findings = judged(ranks)
    shown = [(each.rule, each.message) for each in findings]
    assert {each.rule for each in findings} == {expected.kind}, shown
    found = findings[0]
    assert tuple(_listed(found.evidence["ranks"])) == expected.ranks
    if expected.place:
        assert expected.place in found.places
    if expected.code:
        assert expected.lines() & set(found.places), (expected.lines(), found.places)
    assert expected.place or expected.code
    assert expected.text in found.message
    assert found.advice


def _listed(value: object) -> list[int]:
    assert isinstance(value, list)
    return value


@pytest.mark.parametrize("name", planted.FAULTS)
def test_fault_of_two_ranks_is_named(of_two: Results, name: str) -> None:
    _check_fault(of_two, name, planted.FAULTS[name])


@pytest.mark.parametrize("name", planted.FAULTS_OF_FOUR)
def test_fault_of_four_ranks_is_named(of_four: Results, name: str) -> None:
    _check_fault(of_four, name, planted.FAULTS_OF_FOUR[name])


@pytest.mark.parametrize("name", [*planted.CONTROLS, *planted.CONTROLS_OF_FOUR])
def test_healthy_training_is_silent(of_two: Results, of_four: Results, name: str) -> None:
    _check_control((of_two if name in of_two else of_four)[name])


@pytest.mark.slow
def test_training_compiled_by_inductor_is_silent(tmp_path: Path) -> None:
    (ranks,) = _run(2, tmp_path, "slow").values()
    _check_control(ranks)


def _check_control(ranks: list[dict[str, Any]]) -> None:
    assert [each["errors"] for each in ranks] == [("", "")] * len(ranks)
    assert all(each["is_same"] and each["weights"] for each in ranks)
    assert [(each.rule, each.message) for each in judged(ranks)] == []
    assert all(len(each["reports"]) >= planted.STEPS for each in ranks)
