"""Two programs that only infer are compared like trainings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.compare.runs.planted import dumped
from torch import nn

from sonde.compare.runs.compare import compare


def inference(epsilon: float) -> Callable[[], None]:
    """The evaluation of a network whose normalization has this epsilon."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8, eps=epsilon), nn.Linear(8, 2)).eval()
    batch = torch.randn(3, 4)

    def infer() -> None:
        with torch.no_grad():
            network(batch)

    return infer


@pytest.mark.document(
    185,
    says="Inference Verification: when the inference results are inconsistent",
    how="dump both programs with `sonde run --dump-to`; `sonde compare A B` names the first op "
    "that differs",
)
def test_the_first_op_that_differs_in_inference_is_named(tmp_path: Path) -> None:
    right = dumped(tmp_path / "right", inference(1e-5))
    again = dumped(tmp_path / "again", inference(1e-5))
    wrong = dumped(tmp_path / "wrong", inference(0.1))
    assert right.steps() == (0,)
    assert compare(again, right).verdict == "aligned"
    found = compare(wrong, right)
    assert found.verdict == "diverged"
    assert found.first_divergence is not None
    assert "1-BatchNorm1d/" in found.first_divergence.pair.a
    assert "eps is 0.1 in a" in found.first_divergence.cause
