"""``sonde diagnose``: what it prints, where the program's output goes, and its exit codes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.warm_python.starting import warm_python

from sonde.cli.main import main

SCRIPT = """\
import sys
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.02 if "fast" in sys.argv else 0.01)
for step in range(12):
    if "forget" not in sys.argv:
        optimizer.zero_grad()
    loss = nn.functional.cross_entropy(net(torch.randn(16, 4)), torch.randint(0, 2, (16,)))
    loss.backward()
    optimizer.step()
    print("step", step, loss.item())
if "fail" in sys.argv:
    raise ValueError("the program's own")
"""


def run(*words: str, cwd: Path, command: str = "diagnose") -> subprocess.CompletedProcess[str]:
    (cwd / "train.py").write_text(SCRIPT)
    return subprocess.run(
        [warm_python(), "-m", "sonde", command, *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=800,
    )


def test_json_is_alone_on_standard_output_and_a_finding_ends_with_1(tmp_path: Path) -> None:
    done = run("--json", "train.py", "forget", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    (found,) = json.loads(done.stdout)["findings"]
    assert found["kind"] == "missing-zero-grad"
    assert found["where"][:2] == ["train.py:12", "train.py:13"]
    assert "step 11" in done.stderr


def test_a_healthy_training_ends_with_0_and_keeps_its_output(tmp_path: Path) -> None:
    done = run("train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    plain = subprocess.run(
        [warm_python(), "train.py"], cwd=tmp_path, capture_output=True, text=True, timeout=800
    )
    assert lines[:-1] == plain.stdout.splitlines()
    assert lines[-1] == "no finding in 12 steps"


def test_steps_ends_the_training_early(tmp_path: Path) -> None:
    done = run("--steps", "5", "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "no finding in 5 steps"
    assert "step 6" not in done.stdout


def test_an_ignored_kind_does_not_count(tmp_path: Path) -> None:
    done = run("--ignore", "missing-zero-grad", "train.py", "forget", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_program_that_fails_ends_as_it_would_after_the_findings(tmp_path: Path) -> None:
    done = run("--json", "train.py", "forget", "fail", cwd=tmp_path)
    assert done.returncode == 1
    assert json.loads(done.stdout)["findings"]
    assert done.stderr.rstrip().endswith("ValueError: the program's own")


def test_until_finding_ends_early_and_says_it_at_once_and_at_the_end(tmp_path: Path) -> None:
    done = run("--until-finding", "--html", "a.html", "train.py", "forget", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "step 10" in done.stdout
    assert "step 11" not in done.stdout
    assert done.stderr.count("established: gradients are not cleared") == 1
    assert done.stdout.count("1. established: gradients are not cleared") == 1
    assert "missing-zero-grad" in (tmp_path / "a.html").read_text()


@pytest.mark.parametrize("option", ["--overflow", "--guard"])
def test_run_diagnoses_beside_what_else_is_asked_for(option: str, tmp_path: Path) -> None:
    words = [option, "--diagnose", "--sarif", "a.sarif", "train.py", "forget"]
    done = run(*words, cwd=tmp_path, command="run")
    assert done.returncode == 1, done.stderr
    assert "step 11" in done.stdout
    assert "1. established: gradients are not cleared" in done.stdout
    other = "every value of the observed steps was finite" if option == "--overflow" else "guarded"
    assert other in done.stderr
    assert json.loads((tmp_path / "a.sarif").read_text())["runs"][0]["results"]


def test_against_a_reference_the_setting_that_differs_is_named(tmp_path: Path) -> None:
    done = run(
        "--dump-to", "reference", "--dump-steps", "0", "train.py", cwd=tmp_path, command="run"
    )
    assert done.returncode == 0, done.stderr
    same = run("--against", "reference", "train.py", cwd=tmp_path)
    assert same.returncode == 0, same.stdout
    words = ["--json", "--against", "reference", "train.py", "fast"]
    done = run(*words, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    (found,) = json.loads(done.stdout)["findings"]
    assert (found["kind"], found["detail"]) == ("differs-from-reference", "learning-rate")
    assert (found["evidence"]["here"], found["evidence"]["reference"]) == ("0.02", "0.01")
    created = SCRIPT[: SCRIPT.index("optimizer = ")].count("\n") + 1
    assert found["where"][0] == f"train.py:{created}"


@pytest.mark.parametrize(
    "words", [["--html", "a.html"], ["--ignore", "x"], ["--until-finding"], ["--sarif", "a"]]
)
def test_run_refuses_options_of_a_diagnosis_without_it(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *words, "train.py"]) == 2
    assert f"{words[0]} needs --diagnose" in capsys.readouterr().err


def test_until_finding_is_refused_with_several_ranks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(["diagnose", "--until-finding", "train.py"]) == 2
    assert "cannot be used with several ranks" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["--ignore", "no-such-kind", "train.py"],
        ["--html", "no/such/folder/a.html", "train.py"],
        ["--against", "no/such/dump", "train.py"],
        ["--steps", "0", "train.py"],
        ["nothing-here.py"],
        [],
    ],
)
def test_wrong_use_is_one_line_and_ends_with_2(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", *words]) == 2
    assert "Traceback" not in capsys.readouterr().err
