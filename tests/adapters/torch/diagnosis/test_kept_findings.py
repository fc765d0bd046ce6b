"""What a diagnosis found is kept beside what else is written of the training, and shown again."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import sonde
from sonde.adapters.torch import attach
from sonde.adapters.torch.step_dump.dumping import start_capture
from sonde.capture.options import config_from_options
from sonde.cli.replay_loop import show_findings
from sonde.core.errors import DumpError
from sonde.dump.reader import Dump
from sonde.dump.reading.side_files import read_findings
from sonde.wire.shapes import DiagnosisView


def train(*, underflows: bool = False) -> None:
    """Gradients are never cleared; or the logarithm of a softmax that underflows."""
    torch.manual_seed(7)
    network = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(network.parameters(), 0.01)
    rows = torch.randn(32, 4)
    labels = (rows[:, 0] > 0).long()
    for _ in range(20):
        if underflows:
            optimizer.zero_grad()
            shares = torch.softmax(network(rows) * 400, -1)
            loss = -torch.log(shares)[torch.arange(32), labels].mean()
        else:
            loss = nn.functional.cross_entropy(network(rows), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def rules_of(path: Path) -> list[str]:
    return [each.rule for each in read_findings(path).findings]


@pytest.mark.parametrize("form", ["tensors", "steps"])
def test_a_dump_keeps_the_findings(form: str, tmp_path: Path) -> None:
    given = {"as_steps": True} if form == "steps" else {"stats": True}
    config = config_from_options(tmp_path / "d", {}, steps="0-1", **given)  # type: ignore[arg-type]
    with start_capture(config, starts_at_once=False), sonde.diagnose(prints=False) as diagnosis:
        train()
    stored = Dump(tmp_path / "d").diagnosis(0)
    assert stored is not None
    assert stored.steps == 20
    assert list(stored.findings) == diagnosis.findings


def test_a_guard_keeps_the_findings_beside_its_steps(tmp_path: Path) -> None:
    with sonde.guard(tmp_path / "steps"), sonde.diagnose(prints=False):
        train(underflows=True)
    assert rules_of(tmp_path / "steps" / "findings.json")[0] == "log-of-softmax"


def test_the_verdict_on_nan_and_inf_has_the_finding_that_explains_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = config_from_options(tmp_path / "d", {}, overflow=True)
    with start_capture(config, starts_at_once=False), sonde.diagnose(prints=False) as diagnosis:
        train(underflows=True)
    cause = diagnosis.findings[0]
    verdict = json.loads((tmp_path / "d" / "rank_0" / "overflow.json").read_text())
    assert verdict["finding"]["kind"] == cause.rule == "log-of-softmax"
    assert verdict["headline"]["text"].startswith("log made ")
    assert verdict["headline"]["text"].endswith(f"Why: {cause.message} [log-of-softmax].")
    assert verdict["headline"]["text"] in capsys.readouterr().err
    stored = Dump(tmp_path / "d").verdict(0)
    assert stored is not None
    assert stored.advice == cause.advice


def test_a_finding_that_explains_no_nan_is_not_in_the_verdict(tmp_path: Path) -> None:
    config = config_from_options(tmp_path / "d", {}, overflow=True)
    with start_capture(config, starts_at_once=False), sonde.diagnose(prints=False):
        train()
    verdict = json.loads((tmp_path / "d" / "rank_0" / "overflow.json").read_text())
    assert (verdict["verdict"], verdict["headline"]) == ("finite", None)


def test_the_page_of_a_replay_shows_the_findings_of_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with sonde.guard(tmp_path / "steps"), sonde.diagnose(prints=False):
        train(underflows=True)
    sent: list[DiagnosisView] = []
    debugging = SimpleNamespace(
        debugger=SimpleNamespace(session=SimpleNamespace(report_diagnosis=sent.append))
    )
    monkeypatch.setattr(attach, "running_debugger", lambda: debugging)
    step = next((tmp_path / "steps").glob("step_*"))
    show_findings(step)
    (view,) = sent
    assert view.is_over
    assert view.findings[0].kind == "log-of-softmax"
    (tmp_path / "steps" / "findings.json").write_text("{")
    capsys.readouterr()
    show_findings(step)
    assert len(sent) == 1
    assert "the findings are not shown: " in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '{"steps": 3}',
        '{"steps": 3, "findings": [{"status": "sure"}]}',
        '{"steps": 3, "findings": [{"status": "supported", "where": 3}]}',
        '{"steps": 3, "findings": [{"status": "supported", "lines": [{}]}]}',
    ],
)
def test_damaged_findings_are_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "findings.json"
    path.write_text(text)
    with pytest.raises(DumpError, match="not findings"):
        read_findings(path)
