"""The commands on dumps by msprobe: show, view, compare, loss."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.dump.msprobe_dumps import unpacked
from tests.dump.sample_dumps import DATA

from sonde.cli.main import main


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(tmp_path_factory)


def run(*words: str | Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = main([str(word) for word in words])
    return code, capsys.readouterr().out


def test_show_lists_steps_ops_and_tensors(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = run("show", place / "mix_statistics", capsys=capsys)
    assert code == 0
    assert text.startswith(f"{place / 'mix_statistics'}: pytorch mix, by msprobe\n")
    assert "   0       0   0-1      51       284" in text
    code, text = run("show", place / "L1_tensor", "--op", "linear", "--json", capsys=capsys)
    found = json.loads(text)["tensors"]
    assert {each["type"] for each in found} == {"linear", "linear_backward"}
    assert found[0]["statistics"]["nan count"] == 0


@pytest.mark.parametrize(
    ("contents", "problem"),
    [
        ("[]", "it is a list, not an object"),
        ("3", "it is a number, not an object"),
        ("null", "it is null, not an object"),
        ("{}", "it has no 'data'"),
        ('{"data": []}', "its 'data' is a list, not an object"),
        ('{"data": "x"}', "its 'data' is a text, not an object"),
        ('{"data": {"a": 1, "b": 2}}', "the entry 'a' of 'data' is a number, not an object"),
        ("{", "not JSON: "),
        ("", "not JSON: "),
    ],
)
def test_a_file_that_is_not_one_of_msprobe_is_one_error(
    contents: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dump.json").write_text(contents)
    for words in (["show"], ["view", "--check"], ["compare", str(tmp_path)]):
        assert main([*words, str(tmp_path)]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert f"{tmp_path / 'dump.json'}: " in err
        assert problem in err
        assert err.endswith(" [json-file]\n")
        assert len(err.splitlines()) == 1


def test_a_dump_beside_a_file_that_is_called_like_one_of_msprobe_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dump.json").write_text('{"common_dump_settings": {}}')
    shutil.copytree(DATA / "nan_log", tmp_path / "out")
    code, text = run("show", tmp_path, capsys=capsys)
    assert code == 0
    assert "by MindSpore" in text


def test_view_names_the_origin_of_nan(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = run("view", "--check", place / "nan_L1_tensor", capsys=capsys)
    assert code == 1
    lines = text.splitlines()
    assert lines[0].startswith(
        "log made 14 NaN of 32 values in step 0, forward, at probe_dump.py:30"
    )
    assert any(each.endswith("Default/Torch.log.0.forward output.0  <- makes it") for each in lines)
    assert "    /home/ada/probe_dump.py:30  h = torch.log(h[:, :8] - 0.5)" in lines
    assert run("view", "--check", place / "L1_tensor", capsys=capsys)[0] == 0


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("wrong_L1_tensor", "L1_tensor"), ("wrong_mix_statistics", "mix_statistics")],
)
def test_compare_names_the_first_call_that_differs(
    wrong: str, right: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = run("compare", place / wrong, place / right, "--steps", "0", capsys=capsys)
    assert code == 1
    assert "\n  a Default/Tensor.__mul__.0.forward\n" in text
    assert "probe_dump.py:32  h = h * 1.01" in text
    code, text = run("compare", place / right, place / right, capsys=capsys)
    assert (code, text.split()[0]) == (0, "aligned")


def test_the_losses_of_two_levels_are_equal(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = run("loss", place / "mix_statistics", place / "L1_tensor", capsys=capsys)
    assert code == 0
    assert "equal in all 2 steps" in text


SCRIPT = """
import torch
torch.manual_seed(1)
torch.set_num_threads(1)
class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(8, 8)
        self.norm = torch.nn.LayerNorm(8)
    def forward(self, x):
        return x + torch.nn.functional.relu(self.norm(self.fc(x)))
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.Sequential(Block(), Block())
        self.head = torch.nn.Linear(8, 3)
    def forward(self, x):
        return self.head(self.blocks(x))
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(4, 8); y = torch.tensor([0, 1, 2, 0])
opt.zero_grad()
torch.nn.functional.cross_entropy(net(x), y).backward()
opt.step()
"""


def test_a_script_is_compared_with_a_dump_by_msprobe(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    own = tmp_path / "kept" / "a" / "dump"
    words = ("compare", "--steps", "0")
    code, text = run(
        *words, "--run", tmp_path / "train.py", "--keep", tmp_path / "kept", place / "mix_tensor",
        capsys=capsys,
    )  # fmt: skip
    assert (code, text.split()[0]) == (0, "aligned")
    for name in ("L1_tensor", "mix_statistics"):
        code, text = run(*words, own, place / name, capsys=capsys)
        assert (code, text.split()[0]) == (0, "aligned"), text
    for name in ("wrong_L1_tensor", "wrong_mix_statistics"):
        code, text = run(*words, place / name, own, capsys=capsys)
        assert code == 1
        assert "First divergence: step 0, forward" in text
        assert "Functional.linear.2.forward\n" in text
