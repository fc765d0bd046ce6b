"""The tensors that ``load_checkpoint`` returns are torch's, with ``asnumpy()``."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.train.nets import classifier
from torch import nn

from sonde.train import load_checkpoint, save_checkpoint


@pytest.fixture
def loaded(tmp_path: Path) -> dict[str, Any]:
    save_checkpoint(classifier(), tmp_path / "net.ckpt")
    return load_checkpoint(tmp_path / "net.ckpt")


@pytest.mark.document(66)
@pytest.mark.parametrize("suffix", ["ckpt", "safetensors", "pt"])
def test_asnumpy_of_every_format(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"net.{suffix}"
    half = torch.tensor([1.5, -2.0], dtype=torch.bfloat16)
    save_checkpoint({"a": torch.arange(6).view(2, 3), "half": half}, path)
    found = load_checkpoint(path)
    assert np.array_equal(found["a"].asnumpy(), np.arange(6).reshape(2, 3))
    assert found["half"].data.asnumpy().dtype == np.float32
    assert found["half"].asnumpy().tolist() == [1.5, -2.0]


def test_operations_copies_and_files_are_of_plain_tensors(
    loaded: dict[str, Any], tmp_path: Path
) -> None:
    weight = loaded["0.weight"]
    assert isinstance(weight, torch.Tensor)
    for made in (weight + 1, weight.clone(), weight[0], copy.deepcopy(weight)):
        assert type(made) is torch.Tensor
    assert type(pickle.loads(pickle.dumps(weight))) is torch.Tensor
    torch.save(loaded, tmp_path / "again.pt")
    again = torch.load(tmp_path / "again.pt", weights_only=True)
    assert {type(value) for value in again.values()} == {torch.Tensor}
    assert torch.equal(again["0.weight"], weight)
    assert repr(weight.clone()) == repr(classifier()[0].weight.detach())


@pytest.mark.parametrize("assign", [False, True])
def test_a_network_loads_them_and_trains(loaded: dict[str, Any], assign: bool) -> None:
    network, plain = classifier(seed=5), classifier()
    network.load_state_dict(loaded, assign=assign)
    for net in (network, plain):
        optimizer = torch.optim.Adam(net.parameters(), 0.1)
        for _ in range(3):
            optimizer.zero_grad()
            net(torch.ones(2, 4)).pow(2).sum().backward()
            optimizer.step()
    for own, other in zip(network.parameters(), plain.parameters(), strict=True):
        assert torch.equal(own, other)
    copied = copy.deepcopy(network)
    assert all(type(each) is nn.Parameter for each in copied.parameters())
    assert torch.equal(copied(torch.ones(1, 4)), network(torch.ones(1, 4)))


def test_data_can_be_set(loaded: dict[str, Any]) -> None:
    weight = loaded["3.bias"]
    weight.data = torch.zeros(2)
    weight.data.add_(1)
    assert weight.tolist() == [1.0, 1.0]
