"""``sonde show`` of what a guard has kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

import sonde
from sonde.cli.main import main


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("guarded")
    net = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    with sonde.guard(directory):
        for step in range(30):
            x = torch.randn(4, 3)
            if step == 2:
                sonde.trigger("have a look")
            optimizer.zero_grad()
            net(x).square().mean().backward()
            optimizer.step()
    return directory


def test_signals_and_captured_steps_are_shown(
    kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", str(kept)]) == 0
    said = capsys.readouterr().out
    assert "signals of a guarded training, steps 0 to 29" in said
    rows = [line.split() for line in said.splitlines() if line.split()[:1] and line[:4].strip()]
    numbers = [row[0] for row in rows if row[0].isdigit()]
    assert numbers == ["2", *map(str, range(18, 30))]  # The last, and what triggered.
    assert "largest gradients of the last step: " in said
    assert f"{kept}/step_2.rank_0: the program asked for it: have a look" in said
    assert f"sonde replay {kept}/step_2.rank_0 --debug" in said


def test_json_has_every_signal(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(kept), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["signals"]["columns"]["step"] == list(range(30))
    assert found["signals"]["parameters"] == ["weight", "bias"]
    assert found["steps"][0]["trigger"]["kind"] == "call"


def test_one_captured_step_is_shown(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(kept / "step_2.rank_0")]) == 0
    assert "have a look" in capsys.readouterr().out


def test_a_rank_that_is_not_there_is_an_error(
    kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", str(kept), "--rank", "3"]) == 2
    assert "no signals of rank 3; its ranks are 0 [signals-missing]" in capsys.readouterr().err


def test_a_damaged_file_of_signals_is_an_error(
    kept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "signals.rank_0.ring").write_bytes(
        (kept / "signals.rank_0.ring").read_bytes()[:999]
    )
    assert main(["show", str(tmp_path)]) == 2
    assert "[signals-file]" in capsys.readouterr().err


def test_the_history_has_the_signals_of_all_steps(
    kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    signals = sonde.signals(kept)
    found = sonde.query(kept, "from signals where signal = 'grad_norm' order by step")
    assert found["step"].tolist() == signals["step"].tolist()
    assert found["value"].tolist() == pytest.approx(signals["grad_norm"].tolist(), rel=1e-6)
    weight = sonde.query(kept, "from series('weight/gradient', 'l2norm') order by step")
    assert weight["value"].tolist() == pytest.approx(signals["weight"].tolist(), rel=1e-6)
    ratios = sonde.query(kept, "select update_ratio from layers(7) where layer = 'weight'")
    assert 0 < ratios["update_ratio"][0] < 10
    assert main(["show", str(kept), "--trend", "grad_norm"]) == 0
    assert "weight" in capsys.readouterr().out
