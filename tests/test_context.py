"""``sonde.context.set_context(reserve_class_name_in_scope=False)``: scopes without classes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.adapters.torch.dumping import dumping, files
from torch import nn

from sonde import context
from sonde.core.mindspore.program_settings import PROGRAM
from sonde.dump.reader import Dump


@pytest.fixture(autouse=True)
def _class_names_as_before() -> Iterator[None]:
    yield
    PROGRAM.class_names_in_scopes = True


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.Tanh()(self.fc(x))


def train(path: Path, depth: int = 1) -> torch.Tensor:
    torch.manual_seed(0)
    network = nn.Sequential(Block(), nn.Linear(4, 2))
    for _ in range(depth - 1):
        network = nn.Sequential(network, nn.Identity())
    criterion = nn.MSELoss()
    optimizer = torch.optim.SGD(network.parameters(), 0.1)
    with dumping(path):
        for _ in range(2):
            loss: torch.Tensor = criterion(network(torch.ones(3, 4)), torch.zeros(3, 2))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    return loss.detach()


@pytest.mark.document(
    44,
    says="`context.set_context(reserve_class_name_in_scope=False)` shortens names",
    how="the same: scopes without classes, `Default/network/0/fc/addmm-op0`; long names need it "
    "not, they are in mapping.csv",
)
def test_scopes_have_no_classes(tmp_path: Path) -> None:
    with_classes = train(tmp_path / "with")
    context.set_context(reserve_class_name_in_scope=False)
    assert context.get_context("reserve_class_name_in_scope") is False
    without_classes = train(tmp_path / "without")
    assert torch.equal(with_classes, without_classes)
    names = {op for _, op, _, _ in files(tmp_path / "without")}
    assert {
        "Default/network/0/fc/addmm-op0",
        "Default/network/0/tanh/tanh-op0",
        "Default/network/1/addmm-op0",
        "Default/loss/mse_loss-op0",
        "Gradients/Default/network/1/mm-op0",
    } <= names
    assert any(name.startswith("Default/optimizer/") for name in names)
    assert len(files(tmp_path / "without")) == len(files(tmp_path / "with"))
    graphs = [Dump(tmp_path / each).graph(0) for each in ("with", "without")]
    assert len(graphs[0].nodes) == len(graphs[1].nodes)


@pytest.mark.document(44)
def test_a_deep_network_has_shorter_names(tmp_path: Path) -> None:
    """Names of more than 255 bytes are replaced by numbers; without classes fewer are that long."""
    train(tmp_path / "with", depth=20)
    context.set_context(reserve_class_name_in_scope=False)
    train(tmp_path / "without", depth=20)
    replaced = {}
    for each in ("with", "without"):
        tables = (tmp_path / each).rglob("mapping.csv")
        replaced[each] = sum(len(file.read_text().splitlines()) for file in tables)
    assert replaced["with"] > 0
    assert replaced["without"] == 0


def test_only_true_and_false_are_accepted() -> None:
    with pytest.raises(TypeError, match="reserve_class_name_in_scope"):
        context.set_context(reserve_class_name_in_scope=0)
    assert PROGRAM.class_names_in_scopes
