"""What a rank tells about itself before its first step is compared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn

from sonde.adapters.torch.ranks.environment import arguments, environment, own_numbers
from sonde.adapters.torch.ranks.layout import TensorPlacements


@pytest.fixture
def one_rank(tmp_path: Path) -> Iterator[None]:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_the_environment_does_not_depend_on_when_the_optimizer_makes_its_state(
    one_rank: None,
) -> None:
    net = nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(net.parameters())
    placements = TensorPlacements()
    placements.learn([("", net)], net.parameters())
    before = placements.description(0, 1)
    net(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    assert placements.learn_states(optimizer)
    after = placements.description(0, 1)
    assert len(after.tensors) > len(before.tensors)
    assert after.environment == before.environment
    assert after.environment["the version of torch"] == torch.__version__


def test_files_that_arguments_name_are_told_by_their_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config.yaml"
    found = []
    for number, text in enumerate(("lr: 0.1", "lr: 0.2", "lr: 0.2")):
        config.write_text(text)
        given = [f"--config={config}", "--lr", str(number), "a\0b", str(tmp_path)]
        monkeypatch.setattr("sys.argv", ["train.py", *given])
        found.append(environment()["the file config.yaml"])
        assert arguments() == tuple(given)
    assert found[0] != found[1] == found[2]


def test_own_numbers_are_those_of_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("GROUP_RANK", "nine")
    monkeypatch.delenv("NODE_RANK", raising=False)
    assert own_numbers(5) == (5, 1)
