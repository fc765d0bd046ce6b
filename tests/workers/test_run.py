"""Work in other processes: results in order, errors as raised, a killed process retried."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sonde.core.errors import ConfigError, SondeError, UsageError
from sonde.workers import processes, ray_cluster
from sonde.workers.run import Work, WorkerError, WorkerOptions, run_work

HAS_RAY = importlib.util.find_spec("ray") is not None
PLACES = [
    pytest.param(WorkerOptions(1), id="here"),
    pytest.param(WorkerOptions(2), id="processes"),
    pytest.param(
        WorkerOptions(2, "local"),
        id="ray",
        marks=pytest.mark.skipif(not HAS_RAY, reason="Ray is not installed"),
    ),
]
ELSEWHERE = PLACES[1:]


def square(number: int) -> int:
    return number * number


def fail(number: int) -> int:
    if number == 3:
        raise UsageError("three is not allowed", slug="usage")
    return number


def fail_twice_over(number: int) -> int:
    raise ConfigError(
        [UsageError(f"bad {number}", slug="usage"), UsageError("worse", slug="usage")]
    )


def die_once(number: int, marker: str) -> int:
    """Kill the process of the second piece of work, the first time."""
    if number == 1 and not os.path.exists(marker):
        Path(marker).touch()
        os._exit(9)
    return number


def die(number: int) -> int:
    if number == 1:
        os._exit(9)
    return number


def work(function: object, *more: object, count: int = 6) -> Iterator[Work[int]]:
    assert callable(function)
    return (Work(f"step {n}", function, (n, *more)) for n in range(count))


@pytest.mark.parametrize("options", PLACES)
def test_results_are_in_order(options: WorkerOptions) -> None:
    assert list(run_work(work(square, count=9), options)) == [n * n for n in range(9)]


@pytest.mark.parametrize("options", PLACES)
def test_errors_are_those_of_the_function(options: WorkerOptions) -> None:
    with pytest.raises(UsageError) as caught:
        list(run_work(work(fail), options))
    assert (caught.value.message, caught.value.slug) == ("three is not allowed", "usage")
    with pytest.raises(ConfigError) as several:
        list(run_work(work(fail_twice_over), options))
    assert [each.message for each in several.value.problems] == ["bad 0", "worse"]


@pytest.mark.parametrize("options", ELSEWHERE)
def test_a_killed_worker_is_retried(options: WorkerOptions, tmp_path: Path) -> None:
    marker = str(tmp_path / "killed")
    assert list(run_work(work(die_once, marker), options)) == list(range(6))
    assert os.path.exists(marker)


@pytest.mark.parametrize("options", ELSEWHERE)
def test_a_second_failure_is_one_line_that_names_the_work(options: WorkerOptions) -> None:
    with pytest.raises(WorkerError) as caught:
        list(run_work(work(die), options))
    assert caught.value.slug == "worker-failed"
    assert caught.value.message.startswith("step 1: ")
    assert "\n" not in str(caught.value)


def test_work_is_taken_as_it_is_needed() -> None:
    taken: list[int] = []

    def endless() -> Iterator[Work[int]]:
        for number in range(1000):
            taken.append(number)
            yield Work(f"step {number}", square, (number,))

    results = run_work(endless(), WorkerOptions(2))
    assert [next(results), next(results)] == [0, 1]
    results.close()  # type: ignore[attr-defined]
    assert len(taken) < 10


def test_without_processes_the_work_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object, **__: object) -> None:
        raise OSError("no semaphores here")

    monkeypatch.setattr(processes, "ProcessPoolExecutor", none)
    assert list(run_work(work(square), WorkerOptions(2))) == [0, 1, 4, 9, 16, 25]


@pytest.mark.skipif(HAS_RAY, reason="Ray is installed")
def test_without_ray_the_message_says_what_to_install() -> None:
    with pytest.raises(UsageError, match=r"pip install 'sonde\[ray\]'") as caught:
        list(run_work(work(square), WorkerOptions(None, "auto")))
    assert caught.value.slug == "no-ray"


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "nonsense", ":", "h:x"])
def test_an_address_without_ray_is_one_line_at_once(address: str) -> None:
    with pytest.raises(SondeError) as caught:
        ray_cluster._check_reachable(address)
    assert caught.value.slug == "ray-address"
    assert "\n" not in str(caught.value)
