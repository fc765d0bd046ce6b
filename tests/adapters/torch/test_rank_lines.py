"""Lines of several ranks name their rank; a single process prints them as ever."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from tests.adapters.torch.dumping import config

from sonde.adapters.torch.attach import attach


def divide_by_zero() -> None:
    net = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    (net(torch.ones(1, 2)).sum() / torch.zeros(())).backward()
    optimizer.step()


def lines_of(path: Path, capfd: pytest.CaptureFixture[str], **options: bool) -> list[str]:
    with attach(config(path, debug_mode="overflow"), starts_at_once=True, rank=1, **options):
        divide_by_zero()
    with attach(config(path, debug_mode="overflow"), starts_at_once=True, rank=1, **options):
        pass
    # The texts of random weights are not equally long.
    said = re.sub(r", [0-9.]+ kB in ", " in ", capfd.readouterr().err)
    return said.splitlines()


def test_every_line_of_one_of_several_ranks_names_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WORLD_SIZE", "RANK"):
        monkeypatch.delenv(name, raising=False)
    alone = lines_of(tmp_path / "alone", capfd)
    started = lines_of(tmp_path / "started", capfd, has_other_ranks=True)
    monkeypatch.setenv("WORLD_SIZE", "2")
    launched = lines_of(tmp_path / "launched", capfd)
    assert len(alone) == 5  # the dump, two about the fault, the earlier dump, the all-clear
    assert not any("rank 1:" in line for line in alone)
    named = [f"sonde: rank 1: {line.removeprefix('sonde: ')}" for line in alone]
    for lines, path in ((started, "started"), (launched, "launched")):
        assert lines == [
            line.replace(str(tmp_path / "alone"), str(tmp_path / path)) for line in named
        ]
