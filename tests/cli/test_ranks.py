"""``sonde ranks`` refuses what it cannot compare, and finds nothing where ranks agree."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from sonde.cli.main import main

NAN_LOG = Path(__file__).parents[1] / "dump/data/nan_log/dump"


def test_dump_of_one_rank_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ranks", str(NAN_LOG)]) == 2
    assert "has one rank only" in capsys.readouterr().err


def test_missing_directory_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["ranks", str(tmp_path / "absent")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_copy_of_a_rank_agrees_but_for_its_batches(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    shutil.copytree(NAN_LOG, tmp_path / "two")
    (rank,) = (each for each in (tmp_path / "two").iterdir() if each.name.startswith("rank_"))
    shutil.copytree(rank, tmp_path / "two" / "rank_1")
    code = main(["ranks", str(tmp_path / "two"), "--json"])
    kinds = [each["kind"] for each in json.loads(capsys.readouterr().out)["findings"]]
    assert "replicas-differ" not in kinds
    assert kinds == ["first-non-finite"]
    assert code == 1
