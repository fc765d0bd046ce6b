"""A training gives the same bits with each kind of statistics dump."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.adapters.torch.csv_rows import ALL
from tests.adapters.torch.dumping import dump_of
from tests.adapters.torch.trainings import TRAININGS
from tests.adapters.torch.watching import same

DUMPS: dict[str, dict[str, Any]] = {
    "statistic": {"saved_data": "statistic"},
    "all statistics": {"saved_data": "statistic", "statistic_categories": ALL},
    "hashes": {"saved_data": "statistic", "statistic_categories": ("max", "md5", "xxh3")},
    "full": {"saved_data": "full"},
    "device": {
        "saved_data": "statistic",
        "statistic_categories": ALL,
        "stat_calc_mode": "device",
    },
    "low precision": {
        "saved_data": "statistic",
        "stat_calc_mode": "device",
        "device_stat_precision_mode": "low",
    },
    "overflow": {"debug_mode": "overflow"},
    "exception": {"debug_mode": "exception"},
    "sample": {"sample_mode": True, "sample_num": 7},
}
EVERY_TRAINING = ("statistic", "overflow")
SOME = (
    "a_cnn_with_batch_norm_and_dropout",
    "a_grad_scaler",
    "fused_adam",
    "checkpointing_with_reentry",
    "odd_tensors",
    "exceptions_caught_by_the_program",
    "in_place_and_views",
)


def bits(name: str, path: Path | None, **options: Any) -> Any:
    if path is not None:
        return dump_of(path, TRAININGS[name], **options)
    torch.manual_seed(0)
    np.random.seed(0)
    return TRAININGS[name]()


@pytest.mark.parametrize(
    ("dump", "name"),
    [(dump, name) for dump in DUMPS for name in (TRAININGS if dump in EVERY_TRAINING else SOME)],
)
def test_a_training_gives_the_same_bits(
    dump: str, name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    bare = bits(name, None)
    assert same(bare, bits(name, tmp_path, **DUMPS[dump]))
    assert "failed" not in capfd.readouterr().err


@pytest.mark.parametrize("dump", ["statistic", "overflow"])
@pytest.mark.parametrize("name", SOME)
def test_a_training_gives_the_same_bits_without_a_compiler(
    dump: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SONDE_MATCHER", "python")
    assert same(bits(name, None), bits(name, tmp_path, **DUMPS[dump]))


@pytest.mark.parametrize("dump", ["statistic", "overflow"])
def test_steps_observed_now_and_then_change_nothing_either(dump: str, tmp_path: Path) -> None:
    bare = bits("an_mlp", None)
    assert same(bare, bits("an_mlp", tmp_path, steps="1", **DUMPS[dump]))
