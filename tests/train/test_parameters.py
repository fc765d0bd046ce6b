"""``list_parameters``: the table of ``sonde params`` for a network in memory."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from torch import nn

from sonde.cli.params import params
from sonde.core.errors import UsageError
from sonde.train import list_parameters, save_checkpoint


def network() -> nn.Sequential:
    torch.manual_seed(0)
    made = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Linear(2, 1))
    made[2].bias.requires_grad_(False)
    return made


@pytest.mark.document(
    180,
    says="all and all trainable parameters of a network, with shapes and numbers",
    how="`sonde.train.list_parameters(net)` for a network in memory, `sonde params` for files and "
    "dumps; `get_parameters()` and `trainable_params()` of a `Cell`",
)
def test_parameters_and_buffers_with_shapes_and_totals() -> None:
    found = list_parameters(network())
    assert len(found) == 9
    assert found.trainable == ("0.weight", "0.bias", "1.weight", "1.bias", "2.weight")
    assert found.totals == {
        "count": 9,
        "trainable": 5,
        "elements": 18 + 2 + 2 + 2 + 2 + 1 + 2 + 2 + 1,
        "trainable_elements": 18 + 2 + 2 + 2 + 2,
    }
    row = found.rows["1.running_var"]
    assert (row.weight.shape, row.trainable, row.numbers["avg"]) == ((2,), False, 1.0)
    assert str(found).splitlines()[-1] == (
        "Sequential: 9 parameters with 32 elements, 5 of them trainable with 26"
    )


def test_it_is_the_table_of_the_command(tmp_path: Path) -> None:
    made = network()
    made[2].bias.requires_grad_(True)  # a file does not say that it is not trained
    path = tmp_path / "net.ckpt"
    save_checkpoint(made, path)
    shown = CliRunner().invoke(params, [str(path)]).output.splitlines()
    assert sorted(line.split() for line in shown[:-1]) == sorted(
        line.split() for line in str(list_parameters(made)).splitlines()[:-1]
    )


def test_nan_shows_and_what_has_no_values_has_no_statistics() -> None:
    made = nn.ModuleDict({"here": nn.Linear(2, 1), "meta": nn.Linear(2, 1, device="meta")})
    with torch.no_grad():
        made["here"].weight[0, 0] = torch.nan
    found = list_parameters(made)
    assert "1 nan" in str(found)
    assert found.rows["meta.weight"].numbers == {}
    with pytest.raises(UsageError, match="call it once"):
        list_parameters(nn.LazyLinear(3))
    with pytest.raises(TypeError, match="network"):
        list_parameters("net.ckpt")  # type: ignore[arg-type]
