"""Links that another user places in a shared directory: no file that they point to is changed.

The attacker knows every name that Sonde uses and places a link to a file of the victim there, in
advance or while Sonde writes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.dump.writing.writers import GIGABYTE, IMPLEMENTATIONS, parameters

from sonde.core.errors import SondeError
from sonde.core.files import atomic_file
from sonde.dump.layout import rank_layout
from sonde.dump.sinks.steps import make_room
from sonde.dump.writing.writer import Writer
from sonde.logs.handlers import log_path, open_files
from sonde.logs.settings import log_settings
from sonde.train.checkpoint.checkpoint import load_checkpoint, save_checkpoint
from sonde.tune.script_side.current import append_line

SECRET = "the victim's file\n"


@pytest.fixture
def victim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("home") / "authorized_keys"
    path.write_text(SECRET)
    return path


def write_to(writer: Writer, path: Path) -> None:
    writer.wait(writer.write_text(str(path), b"text"))


def link_to(writer: Writer, path: Path) -> None:
    job = writer.write_text(str(path.with_name("source")), b"text")
    assert writer.link(job, str(path))
    writer.wait_all()


@pytest.mark.parametrize("name", parameters(*IMPLEMENTATIONS))
@pytest.mark.parametrize("act", [write_to, link_to])
def test_a_link_at_the_name_of_a_dumped_file_is_replaced(
    name: str, act: Callable[[Writer, Path], None], tmp_path: Path, victim: Path
) -> None:
    target = tmp_path / "statistic.csv"
    target.symlink_to(victim)
    writer = IMPLEMENTATIONS[name](1, GIGABYTE)
    act(writer, target)
    writer.close()
    assert writer.error is None
    assert victim.read_text() == SECRET
    assert target.read_bytes() == b"text"
    assert not target.is_symlink()


@pytest.mark.parametrize("name", parameters("native-named", "python"))
def test_links_at_every_partial_name_that_was_used_before_are_not_followed(
    name: str, tmp_path: Path, victim: Path
) -> None:
    """The names of a first run tell the attacker nothing about those of the next file."""
    writer = IMPLEMENTATIONS[name](1, GIGABYTE)
    stop = threading.Event()

    def place_links() -> None:
        while not stop.is_set():
            for seen in os.listdir(tmp_path):
                if seen.endswith(".partial"):
                    try:
                        os.unlink(tmp_path / seen)
                        os.symlink(victim, tmp_path / seen)
                    except OSError:
                        continue

    attacker = threading.Thread(target=place_links)
    attacker.start()
    try:
        for number in range(40):
            writer.write_text(str(tmp_path / f"file{number}"), b"x" * 10_000)
        writer.wait_all()
    finally:
        stop.set()
        attacker.join()
    writer.close()
    assert victim.read_text() == SECRET


def test_a_partial_name_that_is_taken_is_refused(
    tmp_path: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even an attacker who foresees the random part gets nothing."""
    monkeypatch.setattr(atomic_file.secrets, "token_hex", lambda size: "0" * 2 * size)
    target = tmp_path / "profile.json"
    atomic_file.partial_path(target).symlink_to(victim)
    with pytest.raises(FileExistsError):
        atomic_file.write_whole(target, "text")
    assert victim.read_text() == SECRET
    assert not target.exists()


def test_links_at_the_names_of_reports_checkpoints_and_logs(tmp_path: Path, victim: Path) -> None:
    place = {name: tmp_path / name for name in ("report.html", "net.ckpt", "out.log", "lines")}
    for path in place.values():
        path.symlink_to(victim)
    atomic_file.write_whole(place["report.html"], "<html>")
    save_checkpoint({"w": torch.ones(2)}, place["net.ckpt"])
    with atomic_file.start_file(place["out.log"]) as log:
        log.write(b"output")
    with pytest.raises(OSError, match="symbolic links"):
        append_line(place["lines"], {"loss": 1.0})
    assert victim.read_text() == SECRET
    assert list(load_checkpoint(place["net.ckpt"])) == ["w"]
    assert place["out.log"].read_bytes() == b"output"


def test_a_link_at_the_name_of_the_log_is_not_followed(tmp_path: Path, victim: Path) -> None:
    settings, _ = log_settings({"GLOG_logtostderr": "0", "GLOG_log_dir": str(tmp_path)})
    path = log_path(settings, 0)
    assert path is not None
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"):
        open_files(settings, 0)
    assert victim.read_text() == SECRET


def test_the_directory_of_a_rank_that_another_user_made_is_moved_aside(
    tmp_path: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rank = rank_layout(tmp_path, 0)
    rank.root.mkdir()
    rank.metadata.symlink_to(victim.parent)
    said: list[str] = []
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    make_room(rank, said.append)
    assert not rank.root.exists()
    assert (tmp_path / "rank_0.previous-1" / ".dump_metadata").is_symlink()
    assert "dump-moved" in said[0]


def test_a_foreign_directory_that_cannot_be_moved_ends_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rank = rank_layout(tmp_path, 0)
    (rank.root / "Net").mkdir(parents=True)

    def refuse(old: object, new: object) -> None:
        raise PermissionError(1, "Operation not permitted", str(old))

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(SondeError, match="rank_0"):
        make_room(rank, print)
