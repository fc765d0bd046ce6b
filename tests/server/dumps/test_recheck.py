"""A check that takes long is shared out among processes, and finds the same."""

import os
from pathlib import Path

import pytest
from tests.server import written_dumps as dumps
from tests.server.dumps.test_run import COUNTS, bad_steps, draft

from sonde.server.dumps import recheck
from sonde.server.dumps.check import check_dump
from sonde.wire.shapes import ConditionSpec, Hit, WatchpointSpec
from sonde.workers import processes, run
from sonde.workers.run import WorkerError, WorkerOptions


def checked(path: Path) -> list[Hit]:
    watched = [draft(), draft("tensor_too_large", max_gt=6.5), draft("weight_change_too_large")]
    return list(check_dump(path, watched).in_order())


@pytest.mark.parametrize("rows", [(), COUNTS])
def test_processes_find_what_one_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: tuple[str, ...]
) -> None:
    path = dumps.write_dump(tmp_path / "d", bad_steps(), rows=rows)
    alone = checked(path)
    assert any(hit.step == 2 and "since step 1" in hit.why for hit in alone)
    monkeypatch.setattr(recheck, "_ALONE_SECONDS", -1.0)
    monkeypatch.setattr(run.os, "cpu_count", lambda: 2)
    assert checked(path) == alone


def test_one_large_step_is_judged_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = dumps.write_dump(tmp_path / "d", {1: bad_steps()[1]})
    alone = checked(path)
    assert len(alone) > 3
    monkeypatch.setattr(recheck, "_WORTH_SECONDS", 0.0)
    monkeypatch.setattr(run.os, "cpu_count", lambda: 3)
    assert checked(path) == alone


def test_a_check_that_is_stopped_ends_its_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = dumps.write_dump(tmp_path / "d", bad_steps())
    monkeypatch.setattr(recheck, "_ALONE_SECONDS", -1.0)
    dump = recheck.IndexedDump(path)
    reported: list[int] = []

    def report(progress: recheck.CheckProgress) -> bool:
        reported.append(progress.done)
        return False

    spec = WatchpointSpec(1, "overflow", (ConditionSpec("tensor_overflow"),))
    recheck.recheck(dump, [spec], report)
    assert reported == [7]


def test_without_processes_it_is_done_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = dumps.write_dump(tmp_path / "d", bad_steps())
    alone = checked(path)
    monkeypatch.setattr(recheck, "_ALONE_SECONDS", -1.0)

    def none(*_: object, **__: object) -> None:
        raise OSError("no semaphores here")

    monkeypatch.setattr(processes, "ProcessPoolExecutor", none)
    assert checked(path) == alone


@pytest.mark.parametrize("workers", [1, 2])
def test_the_user_chooses_how_many_processes(tmp_path: Path, workers: int) -> None:
    path = dumps.write_dump(tmp_path / "d", bad_steps())
    watched = [draft(), draft("tensor_too_large", max_gt=6.5), draft("weight_change_too_large")]
    found = check_dump(path, watched, workers=WorkerOptions(workers))
    assert list(found.in_order()) == checked(path)


def end_at_once() -> None:
    os._exit(9)


def test_processes_that_are_killed_twice_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = dumps.write_dump(tmp_path / "d", bad_steps())
    monkeypatch.setattr(recheck, "_ALONE_SECONDS", -1.0)
    monkeypatch.setattr(processes, "_end_with_parent", end_at_once)
    monkeypatch.setattr(run.os, "cpu_count", lambda: 2)
    with pytest.raises(WorkerError, match="rank 0: the worker process was killed twice"):
        checked(path)
