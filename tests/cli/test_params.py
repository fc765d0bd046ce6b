"""``sonde params`` as a command."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from tests.compare.weights.weights import CHECKPOINTS, DUMPS
from tests.warm_python.starting import warm_python

from sonde.cli.main import main

INIT = str(CHECKPOINTS / "bn_compare_init.ckpt")
FINAL = str(CHECKPOINTS / "bn_compare_final.ckpt")


class ConvBN(torch.nn.Module):
    """The PyTorch port of the net that made the checkpoints."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = torch.nn.Conv2d(2, 4, 3)
        self.bn1 = torch.nn.BatchNorm2d(4)
        self.conv2 = torch.nn.Conv2d(4, 6, 3)
        self.bn2 = torch.nn.BatchNorm2d(6)
        self.fc = torch.nn.Linear(96, 5)


@pytest.mark.document(
    67,
    says="print the weight values in the Checkpoint file",
    how="`sonde params FILE`: every weight with its shape and statistics",
)
@pytest.mark.document(181)
@pytest.mark.document(
    179,
    says="checking all parameters, the number of trainable parameters, and the shape of all "
    "parameters",
    how="`sonde params FILE`: names, types, shapes, numbers and totals of a checkpoint or dump",
)
def test_all_parameters_are_listed_with_totals(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["params", INIT]) == 0
    out = capsys.readouterr().out
    assert "14 parameters with 823 elements, 10 of them trainable with 803" in out
    (line,) = (line for line in out.splitlines() if line.startswith("bn1.moving_variance"))
    assert line.split() == ["bn1.moving_variance", "float32", "[4]", "4", "no", *"1110"]
    assert main(["params", FINAL]) == 0
    out = capsys.readouterr().out
    assert "and 13 of the optimizer; --state shows them" in out
    assert main(["params", FINAL, "--state"]) == 0
    assert "moments.fc.weight" in capsys.readouterr().out


def test_json_has_the_numbers_and_nothing_else_is_printed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    np.savez(tmp_path / "a.npz", w=np.array([1.0, np.nan]), v=np.array([1.0, 3.0]))
    assert main(["params", str(tmp_path / "a.npz"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in document["parameters"]] == ["w", "v"]
    assert document["parameters"][0]["statistics"]["max"] == "NaN"
    assert document["parameters"][1]["statistics"]["std"] == 1.0
    assert (document["count"], document["elements"]) == (2, 4)


def test_a_mindspore_net_is_paired_with_its_torch_port_without_a_map(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    torch.save(ConvBN().state_dict(), tmp_path / "twin.pt")
    assert main(["params", INIT, str(tmp_path / "twin.pt"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["complete"] is True
    pairs = {pair["a"]: pair["b"] for pair in document["pairs"]}
    assert len(pairs) == 14
    assert pairs["bn2.moving_variance"] == "bn2.running_var"
    assert pairs["bn1.gamma"] == "bn1.weight"
    assert not any(pair["equal"] for pair in document["pairs"] if "weight" in pair["a"])
    assert main(["params", INIT, str(tmp_path / "twin.pt")]) == 0
    out = capsys.readouterr().out
    assert "left out: 2 num_batches_tracked, which MindSpore lacks" in out
    assert "14 paired" in out


def test_missing_extra_or_differently_shaped_parameters_end_with_1(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    state = ConvBN().state_dict()
    del state["fc.bias"]
    state["fc.weight"] = torch.zeros(5, 100)
    state["head"] = torch.zeros(2, 2, 2, 2, 2)
    torch.save(state, tmp_path / "twin.pt")
    assert main(["params", INIT, str(tmp_path / "twin.pt")]) == 1
    out = capsys.readouterr().out
    assert "only in a: fc.bias [5]" in out
    assert "only in b: head [2,2,2,2,2]" in out
    assert "other shape: fc.weight [5,96] against fc.weight [5,100]" in out


def test_a_dump_and_the_checkpoint_of_its_run_have_the_same_values(
    capsys: pytest.CaptureFixture[str],
) -> None:
    dump, saved = str(DUMPS / "nan_log" / "dump"), str(CHECKPOINTS / "nan_log_final.ckpt")
    assert main(["params", dump, saved, "--step", "2", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    weights = [pair for pair in document["pairs"] if pair["a"].startswith("fc")]
    assert len(weights) == 4
    assert all(pair["equal"] for pair in weights)


def test_a_file_with_statistics_only_is_reported_as_such(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import torch; torch.manual_seed(0); net = torch.nn.Linear(3, 2)\n"
        "torch.save(net.state_dict(), 'start.pt')\n"
        "net(torch.ones(1, 3)).sum().backward(); torch.optim.SGD(net.parameters(), 0.1).step()\n"
    )
    words = [warm_python(), "-m", "sonde", "run", "--stats", "--dump-to", "dump", script.name]
    subprocess.run(words, cwd=tmp_path, check=True)
    dump, start = str(tmp_path / "dump"), str(tmp_path / "start.pt")
    assert main(["params", dump, start]) == 0
    out = capsys.readouterr().out
    assert "2 paired, 0 of them with equal values, 2 without values, 2 of these with equal" in out
    assert main(["ckpt", "check", dump]) == 0
    assert "2 weights have only statistics" in capsys.readouterr().out


def test_control_characters_in_names_do_not_reach_the_terminal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    np.savez(tmp_path / "a.npz", **{"\x1b[31mred\x07 [bold]x[/bold]": np.ones(2)})
    assert main(["params", str(tmp_path / "a.npz")]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\x07" not in out
    assert r"\x1b[31mred\x07 [bold]x[/bold]" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nope.pt"], "nope.pt does not exist [checkpoint-missing]"),
        ([__file__], "is not a known checkpoint"),
        ([str(CHECKPOINTS)], "contains 4 checkpoints"),
        ([str(CHECKPOINTS.parent)], "holds no dump"),
        ([INIT, "--step", "1"], "--step is for dumps"),
        ([INIT, INIT, "--step", "1"], "are not dumps"),
        ([INIT, "--json-file", "no/where.json"], "--json-file no/where.json cannot be written"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["params", *words]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert len(captured.err.splitlines()) == 1


def test_show_lists_the_parameters_of_a_checkpoint_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", INIT]) == 0
    shown = capsys.readouterr().out
    assert main(["params", INIT]) == 0
    assert capsys.readouterr().out == shown
    assert main(["show", INIT, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["elements"] == 823


@pytest.mark.parametrize("words", [["params", INIT], ["params", INIT, FINAL]])
def test_eighty_columns_are_enough_for_names_and_numbers(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    narrow = Console(width=80, highlight=False)
    monkeypatch.setattr("sonde.cli.params.console", lambda: narrow)
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("bn2.moving_") for line in lines)
    table = lines[:15]
    assert all(len(line) <= 80 for line in table)
    assert ("std" if len(words) == 2 else "max abs") in table[0]
