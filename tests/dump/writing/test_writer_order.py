"""Links and renames of the background writer, and the order it keeps."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.dump.writing.writers import GIGABYTE, Gate, Open, Payload, names_in

from sonde.dump.writing import writer as writer_module
from sonde.dump.writing.python_writer import PythonWriter


def test_a_link_is_another_name_of_a_file_pending_or_done(
    queued: Open, tmp_path: Path, elsewhere: Path
) -> None:
    writer = queued(1, GIGABYTE)
    done = writer.write_text(str(tmp_path / "done"), b"done")
    writer.wait(done)
    gate = Gate(writer, tmp_path, elsewhere)
    pending = writer.write_text(str(tmp_path / "pending"), b"pending")
    for number in range(3):
        assert writer.link(pending, str(tmp_path / f"link {number}"))
    assert writer.link(done, str(tmp_path / "link to done"))
    assert not (tmp_path / "link 0").exists()
    gate.open()
    writer.wait_all()
    assert writer.error is None
    assert all((tmp_path / f"link {n}").samefile(tmp_path / "pending") for n in range(3))
    assert (tmp_path / "link to done").samefile(tmp_path / "done")


def test_links_wait_for_a_file_that_another_thread_writes(opened: Open, tmp_path: Path) -> None:
    writer = opened(4, GIGABYTE)
    payload = Payload(b"x" * 5_000_000)
    for number in range(40):
        job = payload.write(writer, tmp_path / f"{number}")
        for link in range(5):
            writer.link(job, str(tmp_path / f"{number}.{link}"))
    writer.wait_all()
    assert writer.error is None
    assert all((tmp_path / f"{number}").stat().st_nlink == 6 for number in range(40))


def test_a_link_replaces_an_older_file(opened: Open, tmp_path: Path) -> None:
    writer = opened(1, GIGABYTE)
    (tmp_path / "link").write_bytes(b"older")
    job = writer.write_text(str(tmp_path / "file"), b"new")
    for _ in range(2):  # The second finds the name linked already.
        writer.link(job, str(tmp_path / "link"))
        writer.wait_all()
        assert writer.error is None
        assert (tmp_path / "link").samefile(tmp_path / "file")
        assert names_in(tmp_path) == ["file", "link"]


def test_a_link_to_another_file_system_is_a_copy(
    opened: Open, tmp_path: Path, elsewhere: Path
) -> None:
    writer = opened(1, GIGABYTE)
    payload = Payload(np.random.default_rng(0).bytes(1_000_003))
    writer.link(payload.write(writer, tmp_path / "file"), str(elsewhere / "copy"))
    writer.wait_all()
    assert writer.error is None
    assert (elsewhere / "copy").read_bytes() == payload.data
    assert names_in(elsewhere) == ["copy"]
    assert writer.written_bytes == len(payload.data)


def test_a_job_too_old_cannot_be_linked(
    opened: Open, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = opened(1, GIGABYTE)
    if isinstance(writer, PythonWriter):
        monkeypatch.setattr(writer_module, "LINKABLE_JOBS", 500)
    first = writer.write_text(str(elsewhere / "first"), b"")
    second = writer.write_text(str(elsewhere / "second"), b"")
    for _ in range(writer_module.LINKABLE_JOBS - 2):
        writer.barrier_rename(str(elsewhere), str(elsewhere))
    assert writer.link(first, str(elsewhere / "in time"))
    writer.wait_all()
    assert not writer.link(first, str(elsewhere / "late"))
    assert writer.link(second, str(elsewhere / "also in time"))
    writer.wait(first)
    writer.wait_all()
    assert names_in(elsewhere) == ["also in time", "first", "in time", "second"]


# ---------------------------------------------------------------- renames and removals


def test_a_rename_comes_between_what_is_queued_before_and_after(
    opened: Open, tmp_path: Path
) -> None:
    writer = opened(3, GIGABYTE)
    payload = Payload(b"x" * 300_000)
    for step in range(12):
        growing = tmp_path / "unfinished" / str(step)
        growing.mkdir(parents=True)
        place = tmp_path / "graph" / str(step)
        jobs = [payload.write(writer, growing / f"{number}") for number in range(15)]
        writer.link(jobs[0], str(growing / "link"))
        writer.barrier_rename(str(growing), f"{place}/")
        payload.write(writer, place / "later")
        writer.link(jobs[1], str(place / "later link"))
    writer.wait_all()
    assert writer.error is None
    assert names_in(tmp_path / "unfinished") == []
    for step in range(12):
        place = tmp_path / "graph" / str(step)
        assert len(names_in(place)) == 18
        assert all((place / name).stat().st_size == 300_000 for name in names_in(place))
        assert (place / "link").samefile(place / "0")
        assert (place / "later link").samefile(place / "1")


def test_a_removal_comes_between_what_is_queued_before_and_after(
    opened: Open, tmp_path: Path
) -> None:
    writer = opened(3, GIGABYTE)
    payload = Payload(b"x" * 300_000)
    kept = tmp_path / "kept"
    kept.write_bytes(b"kept")
    growing = tmp_path / "growing"
    (growing / "inside").mkdir(parents=True)
    (growing / "a link").symlink_to(kept)
    (growing / "another").symlink_to(tmp_path)
    for number in range(15):
        payload.write(writer, growing / f"{number}")
        writer.write_text(str(growing / "inside" / f"{number}"), b"text")
    writer.barrier_remove(f"{growing}/")
    writer.barrier_remove(str(tmp_path / "nothing"))
    writer.wait_all()
    assert writer.error is None
    assert names_in(tmp_path) == ["kept"]
    growing.mkdir()
    job = payload.write(writer, growing / "later")
    writer.barrier_rename(str(growing), str(tmp_path / "place"))
    writer.link(job, str(tmp_path / "place" / "link"))
    writer.wait_all()
    assert writer.error is None
    assert names_in(tmp_path / "place") == ["later", "link"]


def test_renaming_to_a_directory_that_exists_merges_the_two(opened: Open, tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for directory in (old, old / "deep", new, new / "deep"):
        directory.mkdir()
        (directory / f"of {directory.parent.name}").write_bytes(b"")
    (old / "both").write_bytes(b"old")
    (new / "both").write_bytes(b"new")
    writer = opened(2, GIGABYTE)
    job = writer.write_text(str(old / "deep" / "written"), b"written")
    writer.barrier_rename(str(old), str(new))
    writer.link(job, str(new / "link"))
    writer.wait_all()
    assert writer.error is None
    assert not old.exists()
    assert (new / "both").read_bytes() == b"old"
    assert (new / "link").samefile(new / "deep" / "written")
    assert names_in(new / "deep") == ["of new", "of old", "written"]


def test_files_are_found_after_two_renames(opened: Open, tmp_path: Path) -> None:
    writer = opened(2, GIGABYTE)
    (tmp_path / "a").mkdir()
    job = writer.write_text(str(tmp_path / "a" / "file"), b"text")
    writer.barrier_rename(str(tmp_path / "a"), str(tmp_path / "b"))
    writer.barrier_rename(str(tmp_path / "b"), str(tmp_path / "a"))
    writer.link(job, str(tmp_path / "a" / "link"))
    writer.wait_all()
    writer.barrier_rename(str(tmp_path / "a"), str(tmp_path / "c" / "d"))
    writer.link(job, str(tmp_path / "c" / "d" / "second link"))
    writer.wait_all()
    assert writer.error is None
    assert names_in(tmp_path / "c" / "d") == ["file", "link", "second link"]
    assert (tmp_path / "c" / "d" / "file").stat().st_nlink == 3


def test_many_directories_are_forgotten_but_not_those_in_use(opened: Open, tmp_path: Path) -> None:
    writer = opened(1, GIGABYTE)
    (tmp_path / "growing").mkdir()
    job = writer.write_text(str(tmp_path / "growing" / "file"), b"text")
    writer.barrier_rename(str(tmp_path / "growing"), str(tmp_path / "place"))
    for number in range(300):
        (tmp_path / str(number)).mkdir()
        writer.link(job, str(tmp_path / str(number) / "link"))
    writer.barrier_rename(str(tmp_path / "place"), str(tmp_path / "last place"))
    writer.link(job, str(tmp_path / "link"))
    writer.wait_all()
    assert writer.error is None
    assert (tmp_path / "last place" / "file").stat().st_nlink == 302


operations = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 3), st.binary(max_size=2000)),
        st.tuples(st.just("text"), st.integers(0, 3), st.binary(max_size=20)),
        st.tuples(st.just("link"), st.integers(0, 3), st.integers(0, 100)),
        st.tuples(st.just("rename"), st.integers(0, 3), st.integers(0, 3)),
        st.tuples(st.just("own"), st.integers(0, 100), st.just(0)),
    ),
    max_size=40,
)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    operations=operations, threads=st.integers(1, 3), budget=st.sampled_from([1, 3000, GIGABYTE])
)
def test_the_result_is_that_of_doing_one_thing_after_another(
    opened: Open, operations: list[tuple[str, int, int | bytes]], threads: int, budget: int
) -> None:
    with tempfile.TemporaryDirectory() as root:
        writer = opened(threads, budget)
        directories: list[str] = [f"{root}/{number}" for number in range(4)]
        model: dict[str, dict[str, bytes]] = {directory: {} for directory in directories}
        jobs: list[tuple[int, str, bytes]] = []
        payloads: list[Payload] = []
        for directory in directories:
            os.mkdir(directory)
        for number, (kind, first, second) in enumerate(operations):
            if kind == "write":
                assert isinstance(second, bytes)
                payloads.append(Payload(second))
                directory = directories[first]
                job = payloads[-1].write(writer, Path(directory, str(number)), b"head")
                jobs.append((job, f"{number}", b"head" + second))
                model[directory][f"{number}"] = b"head" + second
            elif kind == "text":
                assert isinstance(second, bytes)
                writer.write_text(f"{directories[first]}/text", second)
                model[directories[first]]["text"] = second
            elif kind == "link" and jobs:
                assert isinstance(second, int)
                job, _, contents = jobs[second % len(jobs)]
                assert writer.link(job, f"{directories[first]}/{number}")
                model[directories[first]][f"{number}"] = contents
            elif kind == "own" and jobs:
                writer.own(jobs[first % len(jobs)][0])
                payloads[first % len(jobs)].array[:] = 255
            elif kind == "rename":
                assert isinstance(second, int)
                old, new = directories[first], directories[second]
                new = new if new != old else f"{root}/new/{number}"
                writer.barrier_rename(old, new)
                model.setdefault(new, {}).update(model.pop(old))
                directories = [new if each == old else each for each in directories]
        writer.wait_all()
        assert writer.error is None
        found = {
            directory: {name: Path(directory, name).read_bytes() for name in os.listdir(directory)}
            for directory in model
        }
        assert found == model
        writer.close()
