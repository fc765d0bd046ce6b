"""Networks that have other names in the two runs are paired."""

from __future__ import annotations

from pathlib import Path

import torch
from tests.compare.runs.planted import dumped
from torch import nn

from sonde.compare.runs.compare import compare
from sonde.compare.runs.pairing.root_names import translate_roots

OLD = [
    "Default/network-Sequential/0-Linear/addmm-op0",
    "Default/network-Sequential_1/0-Linear/addmm-op0",
    "Default/loss-MSELoss/mse_loss-op0",
    "Default/sum-op0",
    "Gradients/Default/network-Sequential/0-Linear/mm-op0",
    "Default/optimizer-SGD/add_-op0",
]
NEW = [
    "Default/G-Sequential/0-Linear/addmm-op0",
    "Default/D-Sequential/0-Linear/addmm-op0",
    "Default/loss-MSELoss/mse_loss-op0",
    "Default/sum-op0",
    "Gradients/Default/G-Sequential/0-Linear/mm-op0",
    "Default/optimizer-SGD/add_-op0",
]


def test_names_of_older_dumps_are_translated_by_class_and_order() -> None:
    translate = translate_roots(NEW, OLD)
    assert list(map(translate, NEW)) == OLD
    assert translate("Default/D-Sequential") == "Default/network-Sequential_1"
    assert translate("D-Sequential.0.weight") == "network-Sequential_1.0.weight"
    assert translate("0.weight") == "0.weight"
    assert list(map(translate_roots(OLD, NEW), OLD)) == NEW


def test_names_that_both_runs_have_stay_whatever_the_order() -> None:
    other_order = [NEW[1], NEW[0], *NEW[2:]]
    assert list(map(translate_roots(NEW, other_order), NEW)) == NEW
    mixed = ["Default/D-Sequential/a-op0", "Default/old-Sequential/a-op0"]
    translate = translate_roots(mixed, ["Default/new-Sequential/a-op0", *mixed[:1]])
    assert list(map(translate, mixed)) == [mixed[0], "Default/new-Sequential/a-op0"]


def test_a_run_with_other_variables_is_paired_by_name(tmp_path: Path) -> None:
    def first() -> None:
        torch.manual_seed(0)
        net, critic = nn.Sequential(nn.Linear(3, 3)), nn.Sequential(nn.Linear(3, 3))
        _train(critic, net)

    def second() -> None:
        torch.manual_seed(0)
        generator, judge = nn.Sequential(nn.Linear(3, 3)), nn.Sequential(nn.Linear(3, 3))
        _train(judge, generator)

    a, b = dumped(tmp_path / "a", first), dumped(tmp_path / "b", second)
    found = compare(a, b)
    assert not found.unpaired
    assert {pair.how for pair in found.pairs} == {"name"}
    names = {pair.a: pair.b for pair in found.pairs}
    assert names["Default/network-Sequential/0-Linear/addmm-op0"] == (
        "Default/generator-Sequential/0-Linear/addmm-op0"
    )
    assert names["Default/critic-Sequential/0-Linear/addmm-op0"] == (
        "Default/judge-Sequential/0-Linear/addmm-op0"
    )


def _train(*parts: nn.Module) -> None:
    optimizer = torch.optim.SGD([each for part in parts for each in part.parameters()], lr=0.1)
    parts[0](parts[1](torch.ones(2, 3))).sum().backward()
    optimizer.step()
