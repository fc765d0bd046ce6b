"""A rank that a program starts by running itself again is started under Sonde; others are not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sonde.capture.program_ranks import observed_ranks

TELL = "import json, os, sys; print(json.dumps([sys.argv[1:], os.environ.get('SONDE_RANK')]))"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The program that runs: what it is called with, and its rank."""
    (tmp_path / "train.py").write_text(TELL)
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "train.py"), "--lr", "1"])
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)
    monkeypatch.setenv("LOCAL_RANK", "0")
    monkeypatch.setenv("SONDE_RANK", "")
    monkeypatch.setenv("SONDE_CAPTURING_PROCESS", "1")
    return str(tmp_path / "train.py")


def started(*words: str, **variables: str) -> tuple[list[str], str]:
    """What a process is told that the program starts."""
    command = [sys.executable, *words]
    ended = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True)
    arguments, rank = json.loads(ended.stdout)
    return arguments, rank


@pytest.mark.parametrize(
    ("words", "variables", "arguments", "rank"),
    [
        (["--lr", "1"], {"LOCAL_RANK": "3"}, ["under-sonde"], "3"),
        (["--lr", "1", "hydra.x=1"], {"LOCAL_RANK": "1"}, ["under-sonde", "hydra.x=1"], "1"),
        (["--lr", "2"], {"LOCAL_RANK": "1"}, ["--lr", "2"], ""),
        (["--lr", "1"], {}, ["--lr", "1"], ""),
    ],
)
def test_only_another_rank_of_the_program_is_started_otherwise(
    words: list[str], variables: dict[str, str], arguments: list[str], rank: str, script: str
) -> None:
    with observed_ranks([sys.executable, "-c", TELL, "under-sonde"]):
        assert started(script, *words, **variables) == (arguments, rank)
        assert os.environ["SONDE_RANK"] == ("0" if rank else "")
    assert started(script, *words, **variables)[0] == words


def test_variables_observe_a_rank_of_a_program_that_they_observe(script: str) -> None:
    tell = "import os; print([os.environ.get('SONDE_CAPTURING_PROCESS')])"
    Path(script).write_text(tell)
    command = [sys.executable, script, "--lr", "1"]
    environ = {**os.environ, "LOCAL_RANK": "1"}
    with observed_ranks(None):
        ended = subprocess.run(command, env=environ, capture_output=True, text=True)
    assert ended.stdout == "[None]\n"
