"""The settings in which two trainings differ are all named, with both values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.compare.runs.planted import dumped
from torch import nn

from sonde.compare.runs.compare import compare
from sonde.compare.runs.settings import KIND, differing_settings
from sonde.dump.reader import Dump

KINDS = {"SGD": torch.optim.SGD, "AdamW": torch.optim.AdamW}


def training(kind: str, *faults: str) -> Callable[[], None]:
    """Two steps of a small network whose settings have these faults."""
    torch.manual_seed(0)
    eps = 1e-3 if "eps" in faults else 1e-5
    net = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16, eps=eps), nn.ReLU(), nn.Linear(16, 2))
    if "init" in faults:
        with torch.no_grad():
            net[3].weight.mul_(1.5)
    decay = 0.0 if "decay" in faults else 0.01
    more: dict[str, Any] = {"eps": 1e-4} if "optimizer eps" in faults else {}
    rate = 0.2 if "rate" in faults else 0.1
    optimizer = KINDS[kind](net.parameters(), lr=rate, weight_decay=decay, **more)
    x = torch.randn(32, 8)

    def train() -> None:
        for _ in range(2):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x), (x[:, 0] > 0).long()).backward()
            optimizer.step()

    return train


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Dump]:
    place = tmp_path_factory.mktemp("references")
    return {kind: dumped(place / kind, training(kind)) for kind in KINDS}


FAULTS = [
    ("SGD", ["eps"], {"eps": ("0.001", "1e-05")}),
    ("SGD", ["decay"], {"weight-decay": ("none", "0.01")}),
    ("SGD", ["rate"], {"learning-rate": ("0.2", "0.1")}),
    ("SGD", ["init"], {"initial-weights": None}),
    ("AdamW", ["decay"], {"weight-decay": ("none", "0.001 of the weight in each step")}),
    ("AdamW", ["optimizer eps"], {"eps": ("0.0001", "1e-08")}),
    (
        "AdamW",
        ["eps", "init", "decay"],
        {"initial-weights": None, "eps": ("0.001", "1e-05"), "weight-decay": ("none", "0.001")},
    ),
    ("AdamW", [], {}),
]


@pytest.mark.parametrize(
    ("kind", "faults", "expected"), FAULTS, ids=[f"{each[0]}-{each[1]}" for each in FAULTS]
)
def test_every_setting_that_differs_is_named_with_both_values(
    kind: str,
    faults: list[str],
    expected: dict[str, tuple[str, str] | None],
    tmp_path: Path,
    references: dict[str, Dump],
) -> None:
    own = dumped(tmp_path / "own", training(kind, *faults))
    found = differing_settings(own, references[kind], compare(own, references[kind]))
    assert {each.rule for each in found} <= {KIND}
    assert {each.detail for each in found} == set(expected)
    for each in found:
        values = expected[each.detail]
        assert each.status == "established"
        assert each.places
        if values is not None:
            assert each.evidence["here"] == values[0]
            assert str(each.evidence["reference"]).startswith(values[1])
            assert each.source is not None


def test_a_divergence_without_another_setting_is_a_finding_itself(
    tmp_path: Path, references: dict[str, Dump]
) -> None:
    train = training("SGD")

    def other() -> None:
        original = nn.functional.relu
        nn.functional.relu = lambda x, inplace=False: original(x) * 1.5  # type: ignore[assignment]
        try:
            train()
        finally:
            nn.functional.relu = original

    own = dumped(tmp_path / "own", other)
    (found,) = differing_settings(own, references["SGD"], compare(own, references["SGD"]))
    assert found.rule == KIND
    assert found.detail
    assert "differs from the reference in step 0" in found.message
