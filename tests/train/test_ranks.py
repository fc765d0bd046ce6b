"""Two ranks: each resumes its own state, and both from the same step."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.train.nets import classifier

from sonde.train import check_ranks, rank_weights

ROOT = Path(__file__).parents[2]


def run_two_ranks(directory: Path) -> list[Any]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    script = [sys.executable, "-m", "tests.train.rank_script"]
    ranks = [
        subprocess.Popen(
            [*script, str(rank), port, str(directory)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    results = []
    for process in ranks:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        results.append(json.loads(out))
    return results


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    return run_two_ranks(tmp_path_factory.mktemp("ranks"))


@pytest.mark.document(
    198,
    says="the initialization must be the same on all devices",
    how="`sonde.train.check_ranks(net)` on every rank says which weights differ",
)
def test_weights_that_differ_between_ranks_are_named_on_every_rank(results: list[Any]) -> None:
    for result in results:
        assert result["ranks"] == {
            "same": False,
            "text": [
                "weights of ranks differ: 3 of 4",
                *(
                    f"{name}: rank 1 has other values than rank 0"
                    for name in ("0.bias", "3.weight", "3.bias")
                ),
            ],
            # DistributedDataParallel copies those of rank 0.
            "wrapped": "4 weights are the same on 2 ranks",
        }


def test_a_single_process_has_nothing_to_compare() -> None:
    report = check_ranks(classifier())
    assert report
    assert str(report) == "4 weights are the same on 1 rank"


def test_other_shapes_and_names_on_other_ranks_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = torch.nn.Linear(4, 2), torch.nn.Linear(4, 3, bias=False)
    digests = [
        {name: rank_weights._digest(value) for name, value in net.state_dict().items()}
        for net in (here, there, there)
    ]
    monkeypatch.setattr(rank_weights, "gather", lambda own: digests)
    monkeypatch.setattr(rank_weights, "rank_count", lambda: 3)
    assert [finding.message for finding in check_ranks(here).findings] == [
        "weight: ranks 1, 2 have another type or shape than rank 0",
        "bias: ranks 1, 2 have no such weight, rank 0 has",
    ]


def test_two_ranks_resume_bit_for_bit_from_the_newest_step_both_have_and_stop_together(
    results: list[Any],
) -> None:
    saved = results[0]["saved"]
    assert "run-2_2.ckpt" in saved
    assert "run_rank1-2_1.ckpt" in saved
    assert "run_rank1-2_2.ckpt" not in saved
    for result in results:
        whole, resumed = result["whole"], result["resumed"]
        assert list(resumed["losses"]) == [str(step) for step in range(6, 13)]
        assert resumed["losses"].items() <= whole["losses"].items()
        assert resumed["weights"] == whole["weights"]
        assert list(result["stopped"]["losses"]) == ["1"]
    assert results[0]["whole"]["losses"] != results[1]["whole"]["losses"]
