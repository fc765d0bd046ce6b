"""Healthy trainings raise no alarm, and diagnosis changes nothing in a training."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
import torch
from tests.adapters.torch.diagnosis.healthy_trainings import HEALTHY
from tests.adapters.torch.diagnosis.scripts import HEAD, findings_of, run
from tests.adapters.torch.diagnosis.trained_twice import TRAINED_TWICE
from torch import nn

# Torch itself warns of some of these bugs.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_training_raises_no_alarm(name: str, tmp_path: Path) -> None:
    findings = findings_of(HEALTHY[name], tmp_path)
    assert [each for each in findings if each.status != "hypothesis"] == []


@pytest.mark.parametrize("name", TRAINED_TWICE)
def test_training_is_bit_identical_with_probes(name: str, tmp_path: Path) -> None:
    code = TRAINED_TWICE[name]
    _, observed = run(code, tmp_path)
    plain: dict[str, object] = {"__name__": "__main__"}
    exec(compile(HEAD + textwrap.dedent(code), "train.py", "exec"), plain)
    assert str(observed["losses"]) == str(plain["losses"])  # NaN is not equal to itself.
    assert observed["counts"] == plain["counts"]
    states = zip(observed["state"], plain["state"], strict=True)  # type: ignore[call-overload]
    for left, right in states:
        assert torch.equal(left.nan_to_num(7.5), right.nan_to_num(7.5))


def test_a_comment_in_the_program_silences_a_finding(tmp_path: Path) -> None:
    code = """
        model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.3), nn.Linear(16, 2))
        model.eval()
        fit(model, torch.optim.Adam(model.parameters()))
        """
    assert [each.rule for each in findings_of(code, tmp_path)] == ["left-in-eval"]
    meant = code.replace("model.eval()", "model.eval()  # sonde: ignore[left-in-eval]")
    other = tmp_path / "meant"
    other.mkdir()
    assert findings_of(meant, other) == []


def test_nothing_stays_patched(tmp_path: Path) -> None:
    before = nn.Module.__call__, torch.autograd.backward, nn.functional.cross_entropy
    run(HEALTHY["frozen on purpose"], tmp_path)
    assert before == (nn.Module.__call__, torch.autograd.backward, nn.functional.cross_entropy)
    assert not torch.is_anomaly_enabled()
