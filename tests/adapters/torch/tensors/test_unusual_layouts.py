"""Values of tensors whose memory only a library reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from sonde.adapters.torch.attach import attach
from sonde.adapters.torch.tensors.view import TorchView
from sonde.capture.options import config_from_options

pytestmark = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(), reason="this torch has no oneDNN"
)


@pytest.mark.parametrize("matcher", ["native", "python"], indirect=True)
def test_an_op_on_onednn_tensors_is_named_not_the_one_that_reads_them(
    matcher: str, tmp_path: Path
) -> None:
    network = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    with attach(config_from_options(tmp_path, {}, overflow=True), starts_at_once=True):
        for step in range(3):
            hidden = network(torch.ones(2, 4))
            other = torch.full((2, 4), 3e38 if step == 1 else 1.0).to_mkldnn()
            product = other * other
            product = hidden.detach().to_mkldnn() + product
            (hidden.sum() + product.to_dense().sum()).backward()
            optimizer.step()
    (found,) = tmp_path.rglob("[0-9]*/overflow.json")
    assert found.parent.name == "1"
    first = json.loads(found.read_text())[0]
    assert first["op"].endswith("mul-op0")
    assert first["source"]["code"] == "product = other * other"


def test_values_of_onednn_tensors_are_counted_and_have_no_shared_memory() -> None:
    values = torch.tensor([1.0, float("nan"), float("-inf"), 0.0])
    view = TorchView(values.to_mkldnn())
    assert view.has_countable_values
    assert view.non_finite() == 2
    assert view.has_nan()
    assert view.memory is None
