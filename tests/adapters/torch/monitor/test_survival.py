"""kill -9 and a full disk: signals stay readable, captured steps are whole or absent."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.adapters.torch.monitor.test_actions import Training, same
from tests.warm_python.starting import warm_python

import sonde
from sonde.adapters.torch.replay.storage import read_step
from sonde.replay.layout import captured_steps
from sonde.replay.manifest import read_manifest

PROGRAM = """
import sys, torch, sonde
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(50, 200), nn.Tanh(), nn.Linear(200, 1))
optimizer = torch.optim.Adam(net.parameters())
with sonde.guard(sys.argv[1], keep=100000, triggers=["loss > 0 and step > 2"]):
    step = 0
    while True:
        sonde.trigger("again")
        optimizer.zero_grad()
        net(torch.randn(64, 50)).square().mean().backward()
        optimizer.step()
        step += 1
        print(step, flush=True)
"""


@pytest.mark.parametrize("steps", [1, 4, 9])
def test_after_kill_9_signals_are_readable_and_captured_steps_whole(
    steps: int, tmp_path: Path
) -> None:
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    kept = tmp_path / "kept"
    with subprocess.Popen(
        [warm_python(), str(program), str(kept)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        for _ in range(steps):
            process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    signals = sonde.signals(kept)
    assert len(signals) >= steps
    assert signals.damaged <= 1
    assert (np.diff(signals["step"]) == 1).all()
    places = captured_steps(kept)
    assert len(places) >= steps
    for place in places:
        manifest = read_manifest(place.path)
        assert manifest.trigger is not None
        read_step(place.path)


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
    assert [each.name for each in (tmp_path / "kept").iterdir()] == ["signals.rank_0.ring"]


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
