"""Healthy trainings raise no alarm, and diagnosis changes nothing in a training."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
import torch
from tests.adapters.torch.diagnosis.healthy_trainings import HEALTHY
from tests.adapters.torch.diagnosis.scripts import HEAD, run
from torch import nn

# Torch itself warns of some of these bugs.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_training_raises_no_alarm(name: str, tmp_path: Path) -> None:
    findings, _ = run(HEALTHY[name], tmp_path)
    assert [each for each in findings if each.status != "hypothesis"] == []


def test_training_is_bit_identical_with_probes(tmp_path: Path) -> None:
    code = """
        class Noisy(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.norm, self.b = nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 2)
                self.drop, self.calls, self.seen = nn.Dropout(0.3), 0, []
            def train(self, mode=True):
                torch.rand(1)
                self.a.requires_grad_(False)
                return super().train(mode)
            def forward(self, x):
                self.calls += 1
                self.seen.append(self.calls)
                return self.b(self.drop(torch.relu(self.norm(self.a(x)))))
        model = Noisy(); opt = torch.optim.AdamW(model.parameters(), lr=1e-2); losses = []
        for i in batches(30):
            opt.zero_grad()
            loss = F.cross_entropy(model(x[i]) + 0.01 * torch.rand(32, 2), y[i])
            loss.backward(); opt.step(); losses.append(loss.item())
        state = [*model.state_dict().values(), torch.rand(4)]
        counts = model.calls, model.seen
        """
    _, observed = run(code, tmp_path)
    plain: dict[str, object] = {"__name__": "__main__"}
    exec(compile(HEAD + textwrap.dedent(code), "train.py", "exec"), plain)
    assert observed["losses"] == plain["losses"]
    assert observed["counts"] == plain["counts"]
    states = zip(observed["state"], plain["state"], strict=True)  # type: ignore[call-overload]
    assert all(torch.equal(left, right) for left, right in states)


def test_a_comment_in_the_program_silences_a_finding(tmp_path: Path) -> None:
    code = """
        model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.3), nn.Linear(16, 2))
        model.eval()
        fit(model, torch.optim.Adam(model.parameters()))
        """
    assert [each.rule for each in run(code, tmp_path)[0]] == ["left-in-eval"]
    meant = code.replace("model.eval()", "model.eval()  # sonde: ignore[left-in-eval]")
    other = tmp_path / "meant"
    other.mkdir()
    assert run(meant, other)[0] == []


def test_nothing_stays_patched(tmp_path: Path) -> None:
    before = nn.Module.__call__, torch.autograd.backward, nn.functional.cross_entropy
    run(HEALTHY["frozen on purpose"], tmp_path)
    assert before == (nn.Module.__call__, torch.autograd.backward, nn.functional.cross_entropy)
    assert not torch.is_anomaly_enabled()
