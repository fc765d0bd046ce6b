"""``--own``: which lines the messages about an op show."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from sonde.cli.main import main

LIBRARY = """\
import torch


class Layer(torch.nn.Module):
    def forward(self, x):
        return torch.log(x - x - 1)
"""
SCRIPT = """\
import torch
from planted_library.layers import Layer

weight = torch.nn.Parameter(torch.ones(2))
optimizer = torch.optim.SGD([weight], lr=0.1)
layer = Layer()
loss = layer(weight).sum()
loss.backward()
optimizer.step()
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    packages = tmp_path / "site-packages"
    (packages / "planted_library").mkdir(parents=True)
    (packages / "planted_library/layers.py").write_text(LIBRARY)
    file = tmp_path / "train.py"
    file.write_text(SCRIPT)
    monkeypatch.setattr(sys, "path", [*sys.path, str(packages)])
    # The command replaces both; later tests of this process start processes from them.
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setenv("SONDE_OWN", "")
    monkeypatch.chdir(tmp_path)
    yield file
    for name in [each for each in sys.modules if each.startswith("planted_library")]:
        del sys.modules[name]


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    code = main(list(map(str, words)))
    said = capsys.readouterr()
    return code, said.out + said.err


def test_the_line_of_the_script_is_shown_with_the_library_beside_it(
    script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = run(capsys, "run", "--overflow", "--dump-to", tmp_path / "dump", script)
    assert code == 0
    assert "forward, at train.py:7 (in planted_library/layers.py:6) `" in text
    (file,) = tmp_path.rglob("[0-9]*/overflow.json")
    entries = json.loads(file.read_text())
    source = entries[0]["source"]
    assert (source["line"], source["library"]["line"]) == (7, 6)
    monochrome = run(capsys, "show", tmp_path / "dump")[1].replace("\n", "")
    assert "planted_library/layers.py:6" in monochrome.replace(" ", "")
    code, text = run(capsys, "show", "--json", tmp_path / "dump")
    shown = json.loads(text)["overflow"][0]["ops"][0]["source"]
    assert shown == source


def test_a_package_that_is_own_is_shown_itself(
    script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("run", "--own", "planted_library", "--overflow", "--dump-to", tmp_path / "dump")
    code, text = run(capsys, *words, script)
    assert code == 0
    assert "forward, at layers.py:6 `" in text
    assert "(in " not in text
    metadata = [json.loads(file.read_text()) for file in tmp_path.rglob("data_dump.json")]
    assert metadata[0]["common_dump_settings"]["own_packages"] == ["planted_library"]
    assert os.environ["SONDE_OWN"] == "planted_library"


def test_a_word_that_is_no_package_is_refused(
    script: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = run(capsys, "run", "--own", "a/b", script)
    assert (code, text.count("\n")) == (2, 1)
    assert "'a/b' is not the name of a package" in text
    assert "[own-packages]" in text
    monkeypatch.setenv("SONDE_OWN", "1x")
    assert run(capsys, "run", script)[0] == 2
