"""``pytest --sonde`` as users run it: the fixture, its assertions and golden files."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.warm_python.starting import warm_python

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "pytest.md"
ACTION = ROOT / "examples" / "github-actions.yml"

TESTS = """
import os

import torch
from torch import nn

from sonde.integrations.pytest import assert_same_numbers


def train(scale=1.0, bad=False):
    layers = nn.Linear(4, 8), nn.Linear(8, 1)
    optimizer = torch.optim.SGD([*layers[0].parameters(), *layers[1].parameters()], lr=0.1)
    for batch in torch.randn(2, 16, 4):
        optimizer.zero_grad()
        y = layers[1](torch.tanh(layers[0](batch)))
        if bad:
            y = y.log()
        loss = (y * scale).square().mean()
        loss.backward()
        optimizer.step()
    return loss.item()


def attention(x):
    scores = (x @ x.T).masked_fill(torch.ones(4, 4).triu(1).bool(), float("-inf"))
    return scores.softmax(-1)


def test_two_runs_have_the_same_numbers(sonde_run):
    before = torch.get_rng_state()
    a, b = sonde_run(train), sonde_run(train)
    assert a.result == b.result
    assert torch.equal(torch.get_rng_state(), before)
    assert_same_numbers(a, b)
    torch.manual_seed(0)
    assert a.result == train(), "observed and not observed"


def test_another_factor(sonde_run):
    assert_same_numbers(sonde_run(train), sonde_run(train, scale=1.001))


def test_a_factor_within_a_tolerance(sonde_run):
    assert_same_numbers(sonde_run(train), sonde_run(train, scale=1.001), rtol=0.1)


def test_a_mask_of_infinities_is_finite(sonde_run):
    sonde_run(attention, torch.eye(4)).assert_finite()


def test_a_logarithm_of_negative_numbers(sonde_run):
    sonde_run(train, bad=True).assert_finite()


def test_golden_numbers(sonde_run):
    scale = float(os.environ.get("SCALE", "1"))
    sonde_run(train, scale=scale).assert_golden()


def test_golden_numbers_with_a_wide_tolerance(sonde_run):
    scale = float(os.environ.get("SCALE", "1"))
    sonde_run(train, scale=scale).assert_golden("wide", rtol=0.1)


def test_golden_ops(sonde_run):
    x = torch.eye(4)
    sonde_run(lambda: x.sin() if "SCALE" in os.environ else x.exp()).assert_golden()


def test_golden_unchanged(sonde_run):
    sonde_run(train).assert_golden()


def test_nothing_runs(sonde_run):
    sonde_run(len, ())


def test_without_the_fixture():
    pass
"""
SINE = 1 + next(number for number, line in enumerate(TESTS.splitlines()) if "x.sin()" in line)
FAILING = {"test_another_factor", "test_a_logarithm_of_negative_numbers", "test_nothing_runs"}
GOLDEN = {
    "test_golden_numbers",
    "test_golden_numbers_with_a_wide_tolerance",
    "test_golden_ops",
    "test_golden_unchanged",
}


class Project:
    """A folder with tests, which are run in this process: it has imported torch already."""

    def __init__(self, path: Path, capture: pytest.CaptureFixture[str], tests: str) -> None:
        self.path = path
        self._capture = capture
        (path / "test_it.py").write_text(tests)

    def run(self, *words: str) -> tuple[dict[str, str], str]:
        """The outcome of each test by its name, and the report."""
        self._capture.readouterr()
        sys.modules.pop("test_it", None)  # pytest imports a module once.
        without = ("cacheprovider", "faulthandler", "timeout", "xdist", "rerunfailures")
        options = [word for name in without for word in ("-p", f"no:{name}")]
        options += ["--import-mode=importlib", "-c", os.devnull, "--rootdir", str(self.path)]
        pytest.main(["-rA", "-W", "error", *options, *words, str(self.path / "test_it.py")])
        report = self._capture.readouterr().out
        lines = [line.split() for line in report.splitlines() if "test_it.py::" in line]
        outcomes = {
            line[1].partition("::")[2]: line[0] for line in lines if line[0] in ("PASSED", "FAILED")
        }
        return outcomes, report


def test_without_the_option_tests_of_numbers_are_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes, report = Project(tmp_path, capsys, TESTS).run()
    assert outcomes == {"test_without_the_fixture": "PASSED"}
    assert "SKIPPED [10]" in report
    assert "observes the numbers of a program: pytest --sonde" in report


def test_failures_name_the_op_and_files_are_written_and_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(tmp_path, capsys, TESTS)
    damaged = tmp_path / "sonde_golden" / "test_it.test_golden_ops.json"
    damaged.parent.mkdir()
    damaged.write_text('{"format": 9, "tensors": []}')
    outcomes, report = project.run("--sonde")
    assert {name for name, each in outcomes.items() if each == "FAILED"} == FAILING | GOLDEN
    place = tmp_path / "sonde_golden" / "test_it.test_golden_numbers.json"
    assert f"there is no golden file {place}; pytest --sonde-update writes it" in report
    assert (
        "mul-op0 differs first in step 0, forward, at test_it.py:18 `loss = (y * scale).square()."
        "mean()` (mul-op0): other is 1.0 in a and 1.001 in b" in report
    )
    assert "at test_it.py:17 `y = y.log()` (log-op0): " in report
    assert "UsageError: no op of torch ran in the observed function [pytest-nothing-ran]" in report
    assert f"{damaged} is not a golden file (format 9, not 1); pytest --sonde-update" in report
    assert "plugin.py" not in report.partition("short test summary")[0], "only the user's lines"

    outcomes, _ = project.run("--sonde-update", "-k", "golden")
    assert outcomes == dict.fromkeys(GOLDEN, "PASSED")
    document = json.loads(place.read_text())
    (tanh,) = [
        each
        for each in document["tensors"]
        if each["step"] == 0 and each["op"].endswith("/tanh-op0")
    ]
    assert (tanh["shape"], tanh["dtype"], tanh["nan"]) == ([16, 8], "float32", 0)
    assert str(tmp_path) not in place.read_text(), "no paths"

    monkeypatch.setenv("SCALE", "1.001")
    outcomes, report = project.run("--sonde", "-k", "golden")
    failed = {name for name, each in outcomes.items() if each == "FAILED"}
    assert failed == {"test_golden_numbers", "test_golden_ops"}
    assert (
        "the numbers differ first at Default/mul-op0 in step 0 at test_it.py:18 `loss = (y * "
        "scale).square().mean()`: min " in report
    )
    assert (
        f"the ops differ first at Default/sin-op0 in step 0 at test_it.py:{SINE} "
        "`sonde_run(lambda: x.sin()" in report
    )
    assert "the golden file has Default/exp-op0 here" in report


def test_the_program_of_the_page_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = re.findall(r"(?ms)^```python\n(.*?)^```", PAGE.read_text())
    outcomes, report = Project(tmp_path, capsys, program).run("--sonde-update")
    assert list(outcomes.values()) == ["PASSED", "PASSED"], report


def test_the_github_action_uploads_findings_with_source_lines(tmp_path: Path) -> None:
    (job,) = yaml.safe_load(ACTION.read_text())["jobs"].values()
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert commands[1] == "pytest --sonde"
    (diagnosis,) = [shlex.split(each) for each in commands if each.startswith("sonde ")]
    (upload,) = [step["with"] for step in job["steps"] if "sarif" in step.get("uses", "")]
    shutil.copytree(ACTION.parent, tmp_path / "examples")
    ended = subprocess.run(
        [warm_python(), "-m", *diagnosis], cwd=tmp_path, capture_output=True, text=True, timeout=800
    )
    assert ended.returncode == 1, ended.stderr
    (run,) = json.loads((tmp_path / upload["sarif_file"]).read_text())["runs"]
    (place, *_) = run["results"][0]["locations"]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "examples/rainfall.py"
    assert place["physicalLocation"]["region"]["startLine"] == 30
    for line in commands[1:]:
        assert f"- run: {line}" in PAGE.read_text()
