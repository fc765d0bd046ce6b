"""``with sonde.diagnose()``: findings as objects, early ends, and beside other observers."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import sonde
from sonde.adapters.torch import private
from sonde.adapters.torch.diagnosis import session
from sonde.capture.options import config_from_options
from sonde.core.errors import UsageError
from sonde.diagnosis.options import DiagnosisOptions
from sonde.wire.shapes import DiagnosisView


class Noisy(nn.Module):
    """Has random numbers, running statistics, and counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 2)
        )
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        found: torch.Tensor = self.layers(x)
        return found


def train(steps: int = 25, *, clears: bool = True) -> list[object]:
    """Train; returns everything that a diagnosis might change."""
    torch.manual_seed(7)
    net = Noisy()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    losses = []
    for _ in range(steps):
        if clears:
            optimizer.zero_grad()
        x = torch.randn(32, 8)
        loss = nn.functional.cross_entropy(net(x), (x[:, 0] > 0).long())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    states = [value.clone() for value in net.state_dict().values()]
    return [losses, net.calls, *(value.tolist() for value in states), torch.rand(3).tolist()]


def test_a_network_that_was_compiled_before_has_the_same_graphs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    graphs: list[str] = []

    def backend(graph: torch.fx.GraphModule, _: object) -> Callable[..., object]:
        graphs.append(graph.code)
        return graph.forward

    def train_compiled(context: Callable[[], AbstractContextManager[object]]) -> list[str]:
        torch.compiler.reset()
        graphs.clear()
        net = torch.compile(nn.Sequential(nn.Linear(8, 8), nn.Tanh()), backend=backend)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        with context():
            for _ in range(2):
                net(torch.ones(4, 8)).square().mean().backward()
                optimizer.step()
        return list(graphs)

    assert train_compiled(sonde.diagnose) == train_compiled(contextlib.nullcontext)
    assert capsys.readouterr().err == "sonde: no finding in 2 steps\n"
    assert not private.has_compiled(), "modules of later trainings are followed"


@pytest.mark.parametrize("done", [0, 3])
def test_steps_are_numbered_as_the_training_does_after_a_resume(done: int) -> None:
    net = nn.Linear(4, 1)
    earlier = torch.optim.Adam(net.parameters())
    for _ in range(done):
        net(torch.ones(2, 4)).sum().backward()
        earlier.step()
    with sonde.diagnose() as diagnosis:
        optimizer = torch.optim.Adam(net.parameters())
        optimizer.load_state_dict(earlier.state_dict())
        for step in range(4):
            optimizer.zero_grad()
            loss = net(torch.ones(2, 4)).square().mean()
            (loss * (float("nan") if step == 1 else 1.0)).backward()
            optimizer.step()
    (found,) = diagnosis.findings
    assert found.step == done + 1
    assert f"in step {done + 1}" in found.message


def test_the_findings_are_objects_while_it_runs_and_after_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with sonde.diagnose() as diagnosis:
        assert diagnosis.findings == []
        train(clears=False)
        assert [each.rule for each in diagnosis.findings] == ["missing-zero-grad"]
    (found,) = diagnosis.findings
    assert (found.rule, found.status, found.step) == ("missing-zero-grad", "established", 1)
    assert found.source is not None
    assert found.source.code == "loss.backward()"
    said = capsys.readouterr().err
    assert said.count(": established: gradients are not cleared") == 1, "while it ran, once"
    assert "1. established: gradients are not cleared" in said
    assert "Traceback" not in said


def test_nothing_is_printed_if_the_program_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with sonde.diagnose(prints=False) as diagnosis:
        train(clears=False)
    assert [each.rule for each in diagnosis.findings] == ["missing-zero-grad"]
    assert capsys.readouterr() == ("", "")


def test_until_finding_ends_the_block_and_the_program_goes_on() -> None:
    with sonde.diagnose(until_finding=True, prints=False) as diagnosis:
        train(200, clears=False)
        pytest.fail("the training was not ended")
    assert diagnosis.steps == 12
    assert [each.rule for each in diagnosis.findings] == ["missing-zero-grad"]


def test_until_finding_leaves_a_healthy_training_alone() -> None:
    with sonde.diagnose(until_finding=True, prints=False) as diagnosis:
        train(60)
    assert (diagnosis.steps, diagnosis.findings) == (60, [])


def test_steps_end_the_block() -> None:
    with sonde.diagnose(steps=5, prints=False) as diagnosis:
        train()
    assert diagnosis.steps == 5


def test_an_exception_of_the_program_passes_and_the_findings_are_there() -> None:
    with pytest.raises(ZeroDivisionError), sonde.diagnose(prints=False) as diagnosis:
        raise ZeroDivisionError(train(clears=False))
    assert [each.rule for each in diagnosis.findings] == ["missing-zero-grad"]


def test_one_diagnosis_runs_at_a_time() -> None:
    with (
        sonde.diagnose(prints=False),
        pytest.raises(UsageError, match="only one diagnosis runs at a time"),
        sonde.diagnose(prints=False),
    ):
        pass
    with sonde.diagnose(prints=False) as diagnosis:  # and the next one can begin
        train(3)
    assert diagnosis.steps == 3


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"steps": 0}, "steps must be a number of steps from 1 on"),
        ({"ignore": "no-such"}, "'no-such' is not a kind of finding"),
        ({"html": "/no/such/folder/a.html"}, "/no/such/folder is no directory to write to"),
        ({"sarif": "."}, "is a directory"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_observed(
    given: dict[str, object], said: str
) -> None:
    with pytest.raises(UsageError, match=said), sonde.diagnose(**given):  # type: ignore[arg-type]
        pass


def test_the_files_are_written(tmp_path: Path) -> None:
    page, sarif = tmp_path / "a.html", tmp_path / "a.sarif"
    with sonde.diagnose(html=page, sarif=str(sarif), prints=False):
        train(clears=False)
    assert '"kind":"missing-zero-grad"' in page.read_text()
    (result,) = json.loads(sarif.read_text())["runs"][0]["results"]
    assert result["ruleId"] == "missing-zero-grad"


def test_the_page_of_a_debugged_training_gets_the_findings_as_they_are_confirmed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[DiagnosisView] = []
    debugging = SimpleNamespace(
        debugger=SimpleNamespace(session=SimpleNamespace(report_diagnosis=sent.append))
    )
    monkeypatch.setattr(session, "running_debugger", lambda: debugging)
    with sonde.diagnose(prints=False):
        train(clears=False)
    assert (sent[0].steps, sent[0].findings) == (1, ())
    running, last = [each for each in sent if each.findings and not each.is_over], sent[-1]
    assert last.is_over
    for each in (running[0], last):
        (found,) = each.findings
        assert (found.kind, found.status) == ("missing-zero-grad", "established")
        assert "gradients are not cleared" in found.message
        assert "call optimizer.zero_grad()" in found.advice


def test_a_block_in_a_program_that_a_command_diagnoses_judges_the_same_evidence() -> None:
    command = session.TrainingDiagnosis(DiagnosisOptions(), lambda found: None, is_shared=True)
    with command.attached():
        with sonde.diagnose(prints=False) as block:
            train(clears=False)
        assert [each.rule for each in block.findings] == ["missing-zero-grad"]
    assert [each.rule for each in command.findings] == ["missing-zero-grad"]


def test_a_block_does_not_keep_a_command_from_ending_the_training() -> None:
    command = session.TrainingDiagnosis(
        DiagnosisOptions(steps=4), lambda found: None, is_shared=True
    )
    with command.attached(), sonde.diagnose(prints=False):
        train(clears=False)
    assert command.steps == 4


def dump_of(folder: Path) -> AbstractContextManager[object]:
    return sonde.capture(config_from_options(folder / "dump", {}, stats=True))


OBSERVERS: dict[str, Callable[[Path], AbstractContextManager[object]]] = {
    "nothing else": lambda folder: contextlib.nullcontext(),
    "a dump": dump_of,
    "a guard": lambda folder: sonde.guard(folder / "guard"),
}


@pytest.mark.parametrize("name", OBSERVERS)
def test_a_training_is_bit_identical_beside_other_observers(name: str, tmp_path: Path) -> None:
    plain = train()
    with OBSERVERS[name](tmp_path), sonde.diagnose(prints=False) as diagnosis:
        assert train() == plain
    assert diagnosis.findings == []
    assert diagnosis.recorder.evidence.first("probe-failed") is None


def test_a_dump_has_the_same_ops_with_a_diagnosis(tmp_path: Path) -> None:
    rows: list[list[tuple[str, ...]]] = []
    for number, with_diagnosis in enumerate((False, True)):
        folder = tmp_path / str(number)
        around = sonde.diagnose(prints=False) if with_diagnosis else contextlib.nullcontext()
        with dump_of(folder), around:
            train(14)  # The module is probed after step 10.
        rows.append(sorted(row for file in folder.rglob("statistic.csv") for row in _rows(file)))
    assert rows[0] == rows[1]
    assert len(rows[0]) > 300


def _rows(file: Path) -> list[tuple[str, ...]]:
    """The rows of a file of statistics without their times; only the names of inputs and of
    ``empty``, which may be memory that is not filled yet."""
    head, *rows = (line.split(",") for line in file.read_text().splitlines())
    time, io = head.index("Timestamp"), head.index("IO")
    return [
        tuple(
            [*each[:time], *each[time + 1 :]]
            if each[io] == "output" and not each[0].startswith("empty")
            else each[:time]
        )
        for each in rows
    ]


def test_activation_checkpoints_are_not_executed_again_by_the_diagnosis() -> None:
    """What autograd saved of a checkpointed part is computed when it is read."""
    calls = 0
    net = nn.Linear(4, 4)

    def part(x: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return torch.softmax(net(x), -1).log()

    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with sonde.diagnose(prints=False) as diagnosis:
        for _ in range(3):
            optimizer.zero_grad()
            loss = checkpoint(part, torch.ones(2, 4), use_reentrant=False).square().mean()
            loss.backward()
            optimizer.step()
    assert diagnosis.steps == 3
    assert calls == 3 * 2
