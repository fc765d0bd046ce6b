"""``sonde loss`` as a command."""

import json
from pathlib import Path

import pytest

from sonde.cli.main import main


@pytest.fixture
def curves(tmp_path: Path) -> tuple[str, str]:
    a, b = tmp_path / "a.csv", tmp_path / "b.log"
    a.write_text("step,loss\n" + "".join(f"{k},{1 / (k + 1)}\n" for k in range(10)))
    b.write_text("".join(f"step {k} loss {(1 + 0.01 * (k > 0)) / (k + 1)}\n" for k in range(10)))
    return str(a), str(b)


@pytest.mark.document(
    76,
    says="Loss Value Comparison with a benchmark script",
    how="`sonde loss A B`: logs, JSON, CSV, TensorBoard files or dumps",
)
def test_curves_within_tolerance_end_with_0_and_others_with_1(
    curves: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["loss", *curves, "--rtol", "0.1"]) == 0
    assert "within tolerance in all 10 steps" in capsys.readouterr().out
    assert main(["loss", *curves]) == 1
    out = capsys.readouterr().out
    assert "out of tolerance from step 1 on: 0.5 against 0.505, relative error 0.99 %" in out
    assert "The second differs: look at the gradients" in out.replace("\n", " ")
    assert "⠉" in out, "the picture"
    assert main(["loss", curves[0], curves[0]]) == 0


@pytest.mark.document(
    77,
    says="generally, the error of the loss value is about 1‰",
    how="the default `--rtol 1e-3` of `sonde loss`",
)
def test_the_default_tolerance_is_one_per_mille(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"a": 1.0, "near": 1.0009, "far": 1.0012}
    for name, factor in files.items():
        lines = "".join(f"{k},{factor / (k + 1)}\n" for k in range(5))
        (tmp_path / f"{name}.csv").write_text("step,loss\n" + lines)
    assert main(["loss", str(tmp_path / "a.csv"), str(tmp_path / "near.csv")]) == 0
    assert main(["loss", str(tmp_path / "a.csv"), str(tmp_path / "far.csv")]) == 1
    assert "allowed 0.1 %" in capsys.readouterr().out


def test_pictures_and_json_are_written(
    curves: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    png, html = tmp_path / "x.png", tmp_path / "x.html"
    words = ["--png", str(png), "--html", str(html), "--json"]
    assert main(["loss", *curves, *words]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["verdict"] == "second-step"
    assert document["first_out_of_tolerance"]["step"] == 1
    assert document["first_out_of_tolerance"]["relative_error"] == pytest.approx(0.01 / 1.01)
    assert document["out_of_tolerance"] == 9
    assert len(document["steps"]) == 10
    assert png.read_bytes().startswith(b"\x89PNG")
    assert "out of tolerance from step 1 on" in html.read_text()


def test_each_side_may_have_its_own_tag_and_pattern(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.jsonl").write_text('{"step": 0, "x": 1}\n{"step": 1, "x": 2}\n')
    (tmp_path / "b.csv").write_text("step,y\n0,1\n1,2\n")
    words = [str(tmp_path / "a.jsonl"), str(tmp_path / "b.csv"), "--tag", "x", "--tag", "y"]
    assert main(["loss", *words]) == 0
    (tmp_path / "c.log").write_text("A=1\nA=2\n")
    (tmp_path / "d.log").write_text("B:1\nB:2\n")
    logs = [str(tmp_path / "c.log"), str(tmp_path / "d.log")]
    assert main(["loss", *logs, "--regex", r"A=(\S+)", "--regex", r"B:(\S+)"]) == 0
    capsys.readouterr()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a.csv", "nope"], "nope does not exist [loss-file]"),
        (["a.csv", "empty.csv"], "empty.csv has no"),
        (["a.csv", "other.csv"], "no step is in both curves"),
        (["a.csv", "a.csv", "--rtol", "-1"], "invalid value for '--rtol'"),
        (["a.csv", "a.csv", "--rtol", "nan"], "--rtol and --atol must not be NaN"),
        (["a.csv", "/dev/null"], "/dev/null is not a file"),
        (["a.csv", "cut.json"], "cut.json cannot be read"),
        (["a.csv", "a.csv", "--regex", "("], "is not a regular expression"),
        (["a.csv", "a.csv", "--png", "no/x.png"], "--png no/x.png cannot be written"),
        (["a.csv", "a.csv", "--tag", "x"], "has no column 'x'"),
        (["a.csv"], "loss needs two sides, files or --run 'SCRIPT ARGS' (got 1)"),
        (["a.csv", "t.py"], "t.py is a script; to run it: sonde loss --run t.py [usage]"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("step,loss\n0,1\n1,2\n")
    Path("empty.csv").write_text("")
    Path("t.py").write_text("import torch\n")
    Path("cut.json").write_text('{"losses": [1.0, 2')
    Path("other.csv").write_text("step,loss\n7,1\n8,2\n9,3\n")
    assert main(["loss", *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1
