"""kill -9 and a full disk: signals stay readable, captured steps are whole or absent."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import signal
import subprocess
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from tests.adapters.torch.monitor.test_actions import Training, same

import sonde
from sonde.adapters.torch.replay.storage import read_step
from sonde.replay.layout import captured_steps
from sonde.replay.manifest import read_manifest

MOMENTS = 30


@pytest.mark.slow
def test_after_kill_9_at_any_moment_signals_are_readable_and_captured_steps_whole(
    tmp_path: Path,
) -> None:
    """A forked child trains guarded, writes captured steps without end, and is killed: 30 times, at
    random moments of its second and third step."""
    with sonde.guard(tmp_path / "first"):  # Its imports are then those of the children, too.
        Training().run()
    context = multiprocessing.get_context("fork")
    random = Random(0)
    whole = 0
    for number in range(MOMENTS):
        kept = tmp_path / str(number)
        reader, writer = context.Pipe(duplex=False)
        child = context.Process(target=_train_without_end, args=(kept, writer))
        child.start()
        writer.close()
        for _ in range(random.randrange(1, 3)):
            reader.recv_bytes()
        reader.poll(0.2 * random.random())  # A moment within the next step, or its end.
        os.kill(child.pid or 0, signal.SIGKILL)
        child.join()
        reader.close()
        whole += _whole_steps(kept)
    assert whole >= MOMENTS


def _train_without_end(kept: Path, done: Connection) -> None:
    torch.set_num_threads(1)  # A forked child has no other threads.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(50, 200), torch.nn.Linear(200, 1))
    optimizer = torch.optim.Adam(net.parameters())
    with sonde.guard(kept, keep=100000):
        while True:
            sonde.trigger("again")
            optimizer.zero_grad()
            net(torch.randn(64, 50)).square().mean().backward()
            optimizer.step()
            done.send_bytes(b"step")


def _whole_steps(kept: Path) -> int:
    """How many steps were kept, each of them whole; the signals are readable."""
    signals = sonde.signals(kept)
    assert len(signals) >= 1
    assert signals.damaged <= 1
    assert (np.diff(signals["step"]) == 1).all()
    places = captured_steps(kept)
    for place in places:
        manifest = read_manifest(place.path)
        assert manifest.trigger is not None
        read_step(place.path)
    others = {each.name for each in kept.iterdir()} - {place.path.name for place in places}
    hidden = {name for name in others if name.startswith(".")}
    assert others - hidden - {"statistics"} == {"signals.rank_0.ring"}
    return len(places)


def test_a_full_disk_ends_nothing_and_leaves_no_part_of_a_step(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=700k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a file system cannot be mounted here")
    try:
        bare = Training()
        bare.run(1, at=-1).run()
        with sonde.guard(disk / "kept"):
            guarded = Training().run(1, at=-1)  # Room for the signals, and for nothing else.
            with contextlib.suppress(OSError), open(disk / "other", "wb", buffering=0) as other:
                while other.write(bytes(1024)):
                    pass
            guarded.run()
        said = capfd.readouterr().err
        assert same(bare.state(), guarded.state())
        assert said.count("No space left on device") == 1
        assert "[step-not-written]" in said
        assert captured_steps(disk / "kept") == []
        assert len(sonde.signals(disk / "kept")) == 8
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_the_path_of_the_hint_works_after_the_program_has_changed_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with sonde.guard("kept"):
        Training().run()
    assert "next: sonde replay kept/step_3.rank_0 --debug" in capfd.readouterr().err
    with sonde.guard("again"):
        training = Training()
        os.chdir("elsewhere")
        training.run()
    said = capfd.readouterr().err
    step = tmp_path / "again" / "step_3.rank_0"
    assert step.is_dir()
    assert f"; kept in {step}\n" in said
    assert f"next: sonde replay {step} --debug" in said


def test_a_disk_that_fills_up_while_a_step_is_written_is_said_and_leaves_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    bare = Training().run().state()
    monkeypatch.setattr("sonde.replay.layout._flush", full)
    with sonde.guard(tmp_path / "kept"):
        guarded = Training().run().state()
    assert same(bare, guarded)
    said = capfd.readouterr().err
    assert said.count("No space left on device") == 1
    assert "[step-not-written]" in said
    left = {each.name for each in (tmp_path / "kept").iterdir()}
    assert left == {"signals.rank_0.ring", "statistics"}


def test_a_directory_that_vanishes_ends_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    bare = Training().run().state()
    with sonde.guard(tmp_path / "kept"):
        training = Training().run(2)
        shutil.rmtree(tmp_path / "kept")
        training = Training()
        guarded = training.run().state()
    assert same(bare, guarded)
    assert "guarded" in capfd.readouterr().err
