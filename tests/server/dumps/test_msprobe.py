"""Dumps by msprobe on the page: graph, tensors, values, curves; nothing is written beside them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
import torch
from tests.dump.msprobe_dumps import unpacked
from tests.server.serving_in_thread import Server, serving

from sonde.server.dumps.run import open_dumps

RELU = "Default/blocks-Sequential/1-Block/Functional.relu.1.forward"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(tmp_path_factory)


@pytest.fixture
def served(place: Path) -> Iterator[Server]:
    paths = [place / "mix_tensor", place / "mix_statistics"]
    with serving(sources=lambda broker: open_dumps(paths, broker)) as server:
        yield server


def test_the_page_shows_graph_values_and_curves(served: Server, place: Path) -> None:
    tensors, statistics = served.get("/runs")["runs"]
    rank = tensors["ranks"][0]
    assert (rank["state"], rank["steps"], rank["graph"]) == ("ended", [0], 0)
    assert rank["metadata"]["framework"] == "pytorch"
    nodes = served.get(f"/runs/{tensors['id']}/nodes?query=relu")["nodes"]
    assert RELU in [node["name"] for node in nodes]
    found = served.get(f"/runs/{tensors['id']}/op/tensors?name={quote(RELU)}")
    assert [(each["io"], each["slot"]) for each in found["tensors"]] == [
        ("input", 0),
        ("output", 0),
    ]
    name = f"op={quote(RELU)}&io=output&slot=0"
    _, _, file = served.open("GET", f"/api/v1/runs/{tensors['id']}/tensor/file?{name}")
    saved = next((place / "mix_tensor").rglob("Functional.relu.1.forward.output.0.pt"))
    expected = torch.load(saved, weights_only=True).detach().numpy()
    np.testing.assert_array_equal(np.load(io.BytesIO(file)), expected)
    curve = served.get(f"/runs/{statistics['id']}/tensor/curve?{name}")
    assert [point["step"] for point in curve["points"]] == [0, 1]
    assert statistics["ranks"][0]["steps"] == [0, 1]
    assert not (place / "mix_tensor" / ".sonde_index").exists()
