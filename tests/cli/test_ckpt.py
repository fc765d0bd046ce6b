"""``sonde ckpt`` as a command."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.compare.weights.weights import CHECKPOINTS, weight

from sonde.cli.main import main
from sonde.compare.weights.formats.mindspore import write_mindspore

INIT = str(CHECKPOINTS / "bn_compare_init.ckpt")
FINAL = str(CHECKPOINTS / "bn_compare_final.ckpt")


def test_a_diff_lists_changes_the_most_changed_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ckpt", "diff", INIT, INIT]) == 0
    assert "equal, bit for bit: 0 of 14 changed" in capsys.readouterr().out
    assert main(["ckpt", "diff", INIT, FINAL, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["changed"] == 14
    assert document["unchanged"] == []
    assert set(document["state_b"]) > {"moments.fc.bias", "global_step"}
    conv = next(each for each in document["weights"] if each["a"] == "conv1.weight")
    assert conv["distances"]["max_abs_error"] > 0
    assert main(["ckpt", "diff", INIT, FINAL]) == 1
    out = capsys.readouterr().out
    relative = [float(line.split()[2]) for line in out.splitlines()[1:15] if "inf" not in line]
    assert relative == sorted(relative, reverse=True)


def test_a_diff_says_why_checkpoints_without_a_change_are_not_equal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    np.savez(tmp_path / "a.npz", **{"x.weight": np.ones((2, 2)), "y.weight": np.ones((3, 3))})
    np.savez(tmp_path / "b.npz", **{"x.weight": np.ones((2, 2))})
    assert main(["ckpt", "diff", str(tmp_path / "a.npz"), str(tmp_path / "b.npz")]) == 1
    assert "not equal: 0 of 1 changed, 1 unchanged, 1 on one side only" in capsys.readouterr().out


def test_a_diff_names_weights_that_stood_still_and_values_that_broke(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    np.savez(tmp_path / "a.npz", **{"x.weight": np.ones((2, 2)), "y.weight": np.ones((2, 2))})
    np.savez(
        tmp_path / "b.npz", **{"x.weight": np.full((2, 2), np.nan), "y.weight": np.ones((2, 2))}
    )
    assert main(["ckpt", "diff", str(tmp_path / "a.npz"), str(tmp_path / "b.npz")]) == 1
    out = capsys.readouterr().out
    assert "unchanged: y.weight" in out
    assert "1 are trainable by name but did not change while others did" in out
    assert "NaN or Inf in b: x.weight" in out


def test_a_check_ends_with_1_when_something_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ckpt", "check", INIT]) == 0
    assert "0 errors, 0 warnings" in capsys.readouterr().out
    bad = str(CHECKPOINTS / "nan_log_final.ckpt")
    assert main(["ckpt", "check", bad]) == 1
    assert "fc1.weight has 24 NaN of 48 elements" in capsys.readouterr().out
    assert main(["ckpt", "check", bad, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert [(each["name"], each["count"]) for each in document["findings"]] == [
        ("fc1.weight", 24),
        ("fc1.bias", 4),
        ("fc2.weight", 24),
        ("fc2.bias", 3),
    ]


@pytest.mark.document(
    184,
    says="the trained parameters can be converted into the checkpoint file of MindSpore",
    how="`sonde ckpt convert net.pt net.ckpt --to mindspore`, and back; read back and verified bit "
    "for bit",
)
def test_a_conversion_renames_proves_and_goes_back(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    there, back = str(tmp_path / "a.pt"), str(tmp_path / "b.ckpt")
    assert main(["ckpt", "convert", INIT, there, "--to", "torch"]) == 0
    out = capsys.readouterr().out
    assert "14 weights" in out
    assert "8 renamed; read back and verified bit for bit" in out
    state = torch.load(there, weights_only=True)
    assert "bn1.running_var" in state
    assert main(["ckpt", "convert", there, back, "--to", "mindspore", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["names"]["bn1.running_var"] == "bn1.moving_variance"
    assert Path(back).read_bytes() == Path(INIT).read_bytes(), "MindSpore's own file, byte for byte"


def test_a_conversion_refuses_to_replace_a_file_and_accepts_a_map_of_names(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    target = str(tmp_path / "a.safetensors")
    names = tmp_path / "names.json"
    names.write_text('{"fc.bias": null, "fc.weight": "head"}')
    words = ["ckpt", "convert", INIT, target, "--to", "safetensors", "--map", str(names)]
    assert main(words) == 0
    assert "omitted, without a counterpart: fc.bias" in capsys.readouterr().out
    assert main(words) == 2
    assert capsys.readouterr().err == f"sonde: {target} exists; --force replaces it [usage]\n"
    assert main([*words, "--force"]) == 0
    assert main(["params", target, "--json"]) == 0
    captured = capsys.readouterr().out
    found = json.loads(captured[captured.index("{") :])
    names_there = [row["name"] for row in found["parameters"]]
    assert "head" in names_there
    assert "fc.bias" not in names_there
    names.write_text("[]")
    assert main([*words, "--force"]) == 2
    assert 'is not an object {"old": "new", ...} [usage]' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["convert", INIT, "x.pt"], "--to is missing: torch, mindspore or safetensors [usage]"),
        (["convert", INIT, "x.pt", "--to", "onnx"], "'onnx' is not one of"),
        (["diff", INIT], "missing argument 'B'"),
        (["zap"], "no such command"),
        (["check", "nope"], "nope does not exist"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ckpt", *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize("command", ["diff", "check", "convert"])
def test_every_command_has_help_with_an_example(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ckpt", command, "--help"]) == 0
    assert f"sonde ckpt {command} " in capsys.readouterr().out


def flat_lstm(path: Path, layers: int) -> torch.nn.LSTM:
    """An LSTM, and its weights in a file as MindSpore before 1.6 has them, made by hand."""
    lstm = torch.nn.LSTM(3, 4, layers, bidirectional=True)
    values = dict(lstm.named_parameters())
    order = [
        f"{kind}_{which}_l{layer}{reverse}"
        for kind in ("weight", "bias")
        for layer in range(layers)
        for reverse in ("", "_reverse")
        for which in ("ih", "hh")
    ]
    flat = np.concatenate([values[name].detach().numpy().reshape(-1) for name in order])
    weights = [
        weight("rnn.weight", flat.reshape(-1, 1, 1)),
        weight("head.weight", np.ones((2, 8), np.float32)),
    ]
    with path.open("wb") as stream:
        write_mindspore(stream, weights)
    return lstm


def test_a_flat_lstm_weight_becomes_parts_that_compute_the_same_and_back(tmp_path: Path) -> None:
    old, parts, again = tmp_path / "old.ckpt", tmp_path / "parts.pt", tmp_path / "again.ckpt"
    lstm = flat_lstm(old, layers=2)
    state = {f"rnn.{name}": torch.zeros_like(value) for name, value in lstm.state_dict().items()}
    torch.save({**state, "head.weight": torch.zeros(2, 8)}, tmp_path / "like.pt")
    like = str(tmp_path / "like.pt")
    assert main(["ckpt", "convert", str(old), str(parts), "--to", "torch", "--like", like]) == 0
    net = torch.nn.Module()
    net.rnn, net.head = torch.nn.LSTM(3, 4, 2, bidirectional=True), torch.nn.Linear(8, 2, False)
    net.load_state_dict(torch.load(parts, weights_only=True))
    x = torch.randn(5, 1, 3)
    assert torch.equal(net.rnn(x)[0], lstm(x)[0])
    words = ["--to", "mindspore", "--like", str(old)]
    assert main(["ckpt", "convert", str(parts), str(again), *words]) == 0
    assert main(["ckpt", "diff", str(old), str(again)]) == 0


def test_a_flat_lstm_weight_is_refused_if_its_parts_are_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, target = tmp_path / "old.ckpt", tmp_path / "new.pt"
    flat_lstm(old, layers=1)
    assert main(["ckpt", "convert", str(old), str(target), "--to", "torch"]) == 2
    said = capsys.readouterr().err
    assert "'rnn.weight' is the flat weight of a recurrent layer" in said
    assert "--like" in said
    torch.save(torch.nn.LSTM(3, 5).state_dict(), tmp_path / "other.pt")
    words = ["--to", "torch", "--like", str(tmp_path / "other.pt")]
    assert main(["ckpt", "convert", str(old), str(target), *words]) == 2
    assert "no recurrent layer of" in capsys.readouterr().err
    assert not target.exists()
    words = ["--to", "torch", "--names", "keep"]
    assert main(["ckpt", "convert", str(old), str(target), *words]) == 0
    assert torch.load(target, weights_only=True)["rnn.weight"].shape[1:] == (1, 1)
