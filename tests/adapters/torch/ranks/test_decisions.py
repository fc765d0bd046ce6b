"""What a rank says about the modes of its modules and its frozen parameters."""

from __future__ import annotations

import torch
from torch import nn

from sonde.adapters.torch.ranks.decisions import ModuleModes, decisions, listed
from sonde.adapters.torch.ranks.running_step import RunningStep


def network() -> nn.Sequential:
    inner = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.1))
    return nn.Sequential(inner, nn.BatchNorm1d(2), nn.Linear(2, 1))


def test_outermost_modules_in_eval_mode_are_named() -> None:
    model, modes = network(), ModuleModes()
    assert modes.in_eval(model, is_new=True) == ""
    model[0].eval()
    model[1].eval()
    assert modes.in_eval(model, is_new=False) == "0, 1"
    model.train()
    assert modes.in_eval(model, is_new=False) == ""
    model.append(nn.Linear(1, 1).eval())
    assert modes.in_eval(model, is_new=True) == "3"


def test_many_names_are_equal_only_if_all_are() -> None:
    names = [f"layer.{number}" for number in range(40)]
    other = [*names[:-1], "layer.50"]
    assert listed(names) == listed(list(names)) != listed(other)
    assert listed(names).startswith("layer.0, layer.1, layer.2, layer.3, layer.4 and 35 others")


def test_frozen_parameters_are_named_not_counted() -> None:
    model = network()
    names = {id(each): name for name, each in model.named_parameters()}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model[2].bias.requires_grad_(False)
    found = decisions([optimizer], RunningStep(), lambda each: names[id(each)], 0)
    assert found["parameters with requires_grad=False"] == "2.bias"
    assert found["learning rate"] == "0.1"
