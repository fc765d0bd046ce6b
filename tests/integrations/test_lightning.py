"""``SondeCallback`` in Lightning's Trainer, and ``SondeFabricCallback``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.integrations.running import Ended, logged_texts, of_the_last_rank, run, run_two_ranks

import sonde

pytest.importorskip("lightning")
pytestmark = pytest.mark.slow
FAULT = "results.py:16: return torch.log(1 - 2 * bad.float()).sum()"


@pytest.mark.filterwarnings("ignore")  # of the libraries that TensorBoard uses
def test_a_training_is_bit_identical_and_a_nan_is_found_in_lightnings_step(tmp_path: Path) -> None:
    ended = run("lightning_trainer.py", "fault", cwd=tmp_path)
    results = ended.results
    assert results["bare"] == results["observed"]
    found = [(each["rule"], each["step"]) for each in results["findings"]]
    assert found == [("non-finite-loss", 2), ("non-finite-op", 2)]
    assert ended.said[0].startswith("sonde: step 2 (Lightning's step 3): the loss is nan; ")
    assert FAULT in ended.said[0]
    assert "from row 1 of 4 rows of the batch; in micro-batch 0 of 2" in ended.said[0]
    assert sonde.signals(tmp_path / "sonde_steps")["step"].tolist() == [0, 1, 2, 3]
    assert results["counted"] == 2
    table = (tmp_path / results["log_dir"] / "metrics.csv").read_text().splitlines()
    assert "sonde_findings" in table[0].split(",")
    texts = logged_texts(tmp_path / "events" / "version_1")
    assert [each.partition(b"**  ")[0] for each in texts] == [
        b"**ERROR sonde: non-finite-loss in step 2",
        b"**ERROR sonde: non-finite-op in step 2",
    ]
    assert b"captured step: " in texts[0]


def test_stop_ends_the_training_in_lightnings_way(tmp_path: Path) -> None:
    ended = run("lightning_trainer.py", "fault", "stop", cwd=tmp_path)
    assert ended.results["steps"] == 3
    assert sonde.signals(tmp_path / "sonde_steps")["is_skipped"].tolist() == [0, 0, 1]


@pytest.mark.filterwarnings("ignore")  # of the libraries that TensorBoard uses
def test_two_ranks_stop_together_if_one_has_a_bad_batch(tmp_path: Path) -> None:
    results, said = run_two_ranks("lightning_trainer.py", "fault", "stop", cwd=tmp_path)
    assert FAULT in said
    assert [each["steps"] for each in results] == [1, 1]  # of 2; the sampler shuffles
    rules = {each["rule"] for result in results for each in result["findings"]}
    assert sorted(len(each["findings"]) > 0 for each in results) == [False, True]
    assert "non-finite-loss" in rules
    assert len({each["bare"] for each in results}) == 1


def test_the_step_that_raises_is_kept_and_the_exception_goes_on(tmp_path: Path) -> None:
    ended = run("lightning_trainer.py", "raise", cwd=tmp_path)
    assert {"fit", "training_step"} <= {*ended.results["raised"]}
    assert ended.results["findings"][0]["rule"] == "exception"
    assert ended.results["findings"][0]["step"] == 2
    assert [each.name for each in (tmp_path / "sonde_steps").glob("step_*")] == ["step_2.rank_0"]


def test_sonde_run_numbers_steps_so_and_counts_no_sanity_check(tmp_path: Path) -> None:
    command = ("-m", "sonde", "run", "--guard")
    ended = run("lightning_trainer.py", "fault", "bare", cwd=tmp_path, command=command)
    assert ended.said[0].startswith("sonde: step 2 (Lightning's step 3): the loss is nan; ")
    assert sonde.signals(tmp_path / "sonde_steps")["step"].tolist() == [0, 1, 2, 3]


@pytest.mark.filterwarnings("ignore")  # of the libraries that TensorBoard uses
def test_sonde_run_observes_the_rank_that_lightning_starts(tmp_path: Path) -> None:
    words = ("fault", "launch", "bare")
    guarded = run(
        "lightning_trainer.py", *words, cwd=tmp_path, command=("-m", "sonde", "run", "--guard")
    )
    bare = run("lightning_trainer.py", *words, cwd=tmp_path)
    assert {each["bare"] for each in both(guarded)} == {each["bare"] for each in both(bare)}
    assert FAULT in guarded.stderr
    for rank in (0, 1):
        assert sonde.signals(tmp_path / "sonde_steps", rank)["step"].tolist() == [0, 1]


def both(ended: Ended) -> list[dict[str, Any]]:
    """What both ranks printed."""
    assert ended.code == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]


@pytest.mark.parametrize(("words", "steps"), [((), 8), (("stop",), 5)])
def test_a_loop_with_fabric(words: tuple[str, ...], steps: int, tmp_path: Path) -> None:
    ended = run("fabric_loop.py", "fault", *words, cwd=tmp_path)
    results = ended.results
    assert results["steps"] == steps
    assert (results["bare"] == results["observed"]) is not bool(words)
    assert (results["findings"][0]["rule"], results["findings"][0]["step"]) == (
        "non-finite-loss",
        4,
    )
    assert FAULT in ended.said[0]
    table = (tmp_path / results["log_dir"] / "metrics.csv").read_text()
    assert "sonde_findings" in table.splitlines()[0].split(",")


def test_two_ranks_with_fabric_stop_together(tmp_path: Path) -> None:
    results, _ = run_two_ranks("fabric_loop.py", "fault", "last", "stop", cwd=tmp_path)
    assert [each["steps"] for each in results] == [5, 5]
    assert of_the_last_rank(results)
