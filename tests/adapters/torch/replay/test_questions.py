"""Each question about a step gets the answer that the step was made for."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.adapters.torch.replay.recording import Recorded, recording
from torch import nn

from sonde.adapters.torch.replay.execution import execute
from sonde.adapters.torch.replay.questions.changed_records import in_double, with_rows
from sonde.adapters.torch.replay.questions.settings import with_settings
from sonde.adapters.torch.replay.questions.step_replay import StepReplay
from sonde.adapters.torch.replay.recorder import StepRecorder
from sonde.adapters.torch.replay.step_record import StepRecord
from sonde.adapters.torch.replay.storage import write_step
from sonde.adapters.torch.replay.storage.captured_step import CapturedStep
from sonde.core.errors import SondeError
from sonde.replay.errors import ReplayError

NAN_LOSS = {"kind": "non-finite", "quantity": "loss", "step": 0, "text": "the loss is nan"}


class Formula(nn.Module):
    """A network of one weight that computes any function of it and the input."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.drop = nn.Dropout(0.5)
        self.name = name
        self.gain = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return FORMULAS[self.name](self, x)


FORMULAS: dict[str, Callable[[Any, torch.Tensor], torch.Tensor]] = {
    "nan in one row": lambda net, x: (x * net.weight * net.gain).sqrt(),
    "overflow of float32": lambda net, x: (x * net.weight * 1e30).square() * 0,
    "nan by dropout": lambda net, x: net.drop(x.abs() * net.weight + 1).log() * 0,
    "two rows together": lambda net, x: (1.5 - (x * net.weight).clamp(0, 1).sum(0)).sqrt(),
    "random": lambda net, x: x * net.weight + float(torch.empty(1).new_tensor(RANDOM.pop())),
    "nan if compiled": lambda net, x: (
        x * net.weight * (-1 if torch.compiler.is_compiling() else 1)
    ).sqrt(),
    "healthy": lambda net, x: (x * net.weight).tanh(),
}
RANDOM: list[float] = []


def replay_of(
    directory: Path,
    name: str,
    batch: torch.Tensor,
    trigger: dict[str, Any],
    *,
    clips: bool = False,
    foreach: bool | None = None,
) -> StepReplay:
    """A captured step of one network on one batch, read as in a fresh process."""
    places = []

    def use(record: StepRecord, recorder: StepRecorder, found: Recorded) -> None:
        with recorder.replaying():
            places.append(write_step(record, directory, trigger, {}))

    torch.manual_seed(0)
    model = Formula(name)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with recording(use):
        model(batch).sum().backward()
        if clips:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=foreach)
        optimizer.step()
    step = CapturedStep(places[0].path)
    modules = [each for each in step.pickled_modules() if each is not None]
    return StepReplay(step, modules)


def test_the_row_with_the_fault_suffices(tmp_path: Path) -> None:
    batch = torch.rand(32, 3)
    batch[19, 1] = -1
    found = replay_of(tmp_path, "nan in one row", batch, NAN_LOSS).needed_rows()
    assert found.evidence["rows"] == [19]
    assert found.message.startswith("row 19 of 32 suffices")


def test_rows_that_fail_only_together_are_both_found(tmp_path: Path) -> None:
    batch = torch.zeros(16, 3)
    batch[2] = batch[13] = 1.0
    found = replay_of(tmp_path, "two rows together", batch, NAN_LOSS).needed_rows()
    assert found.evidence["rows"] == [2, 13]


def test_overflow_of_float32_is_rounding(tmp_path: Path) -> None:
    replaying = replay_of(tmp_path, "overflow of float32", torch.rand(4, 3) + 1, NAN_LOSS)
    found = replaying.is_rounding()
    assert found.evidence["fires"] is False
    assert found.message.startswith("rounding or overflow: in float64 it does not happen")


def test_a_fault_of_the_formula_is_not_rounding(tmp_path: Path) -> None:
    replaying = replay_of(tmp_path, "nan in one row", -torch.rand(4, 3), NAN_LOSS)
    assert replaying.is_rounding().message.startswith("not rounding")


def test_a_fault_by_dropout_is_found(tmp_path: Path) -> None:
    replaying = replay_of(tmp_path, "nan by dropout", torch.rand(8, 3), NAN_LOSS)
    assert replaying.is_dropout().message.startswith("dropout matters")


def test_a_step_is_deterministic_or_not(tmp_path: Path) -> None:
    healthy = replay_of(tmp_path, "healthy", torch.rand(8, 3), NAN_LOSS)
    assert healthy.is_deterministic(3).rule == "replay-deterministic"
    RANDOM[:] = [float(number) for number in range(100)]
    other = replay_of(tmp_path / "other", "random", torch.rand(8, 3), NAN_LOSS)
    found = other.is_deterministic(3)
    assert found.rule == "replay-not-deterministic"
    assert found.op is not None


def test_a_setting_of_a_module_changes_the_answer(tmp_path: Path) -> None:
    replaying = replay_of(tmp_path, "nan in one row", -torch.rand(4, 3), NAN_LOSS)
    assert with_settings(replaying, ["gain=-1.0"]).evidence["fires"] is False
    assert with_settings(replaying, ["gain=2"]).evidence["fires"] is True
    assert replaying.modules[0].gain == 1.0


def test_a_setting_of_the_optimizer_gives_the_update(tmp_path: Path) -> None:
    replaying = replay_of(tmp_path, "healthy", torch.rand(4, 3), NAN_LOSS)
    weights = replaying.modules[0].weight.detach().clone()  # type: ignore[union-attr, operator]
    one = with_settings(replaying, ["lr=0.1"]).evidence["update_ratio"]
    ten = with_settings(replaying, ["lr=1.0"]).evidence["update_ratio"]
    assert ten == pytest.approx(10 * float(str(one)))
    assert torch.equal(replaying.modules[0].weight, weights)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text", ["lr", "=3", "lr=x", "nothing=1", "weight=1", "lr=__import__('os')"]
)
def test_a_wrong_setting_is_refused(tmp_path: Path, text: str) -> None:
    replaying = replay_of(tmp_path, "healthy", torch.rand(4, 3), NAN_LOSS)
    with pytest.raises(SondeError) as error:
        with_settings(replaying, [text])
    assert error.value.slug in ("usage", "replay-setting")


def test_rows_of_a_healthy_step_cannot_be_found(tmp_path: Path) -> None:
    replaying = replay_of(tmp_path, "healthy", torch.rand(4, 3), NAN_LOSS)
    with pytest.raises(ReplayError, match="does not fire"):
        replaying.needed_rows()


@pytest.mark.parametrize(("threshold", "fires"), [(1.0, True), (1e6, False)])
def test_a_spike_is_judged_by_its_threshold(tmp_path: Path, threshold: float, fires: bool) -> None:
    trigger = {"kind": "spike", "quantity": "loss", "value": 5.0, "threshold": threshold}
    replaying = replay_of(tmp_path, "healthy", torch.rand(4, 3), {**trigger, "text": "spike"})
    assert replaying.is_rounding().evidence["fires"] is fires


def test_a_step_without_a_fault_has_nothing_to_explain(tmp_path: Path) -> None:
    asked = {"kind": "call", "text": "the program asked for it"}
    replaying = replay_of(tmp_path, "healthy", torch.rand(4, 3), asked)
    found = replaying.is_dropout()
    assert found.message.startswith("nothing to explain: it happens neither without dropout nor")


def test_the_norm_of_a_clipped_step_with_nan_does_not_spoil_other_rows(tmp_path: Path) -> None:
    batch = torch.rand(8, 3)
    batch[5] = -1
    replaying = replay_of(tmp_path, "nan in one row", batch, NAN_LOSS, clips=True)
    assert replaying.needed_rows().evidence["rows"] == [5]
    assert replaying.is_exact()[0].is_exact


@pytest.mark.parametrize("foreach", [False, True])
def test_clipping_is_computed_anew_for_other_rows_and_in_float64(
    tmp_path: Path, foreach: bool
) -> None:
    batch = torch.rand(8, 3) * 4
    replaying = replay_of(tmp_path, "healthy", batch, NAN_LOSS, clips=True, foreach=foreach)
    assert replaying.is_exact()[0].is_exact

    def clipped(rows: torch.Tensor) -> torch.Tensor:
        model = Formula("healthy").to(rows.dtype)
        model(rows).sum().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=foreach)
        assert model.weight.grad is not None
        return model.weight.grad

    def computed(record: StepRecord) -> torch.Tensor:
        ((_, gradient),) = execute(record).gradients.values()
        assert gradient is not None
        return gradient

    assert computed(with_rows(replaying.record(), [3])).equal(clipped(batch[3:4]))
    assert computed(in_double(replaying.record())).equal(clipped(batch.double()))


@pytest.mark.usefixtures("nothing_compiled")
def test_a_fault_of_compiled_code_is_the_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Dynamo alone shows whether the other form is executed, without the time that Inductor takes.
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="eager"))
    batch = torch.rand(4, 3) + 1
    replaying = replay_of(tmp_path, "nan if compiled", batch, NAN_LOSS)
    found = replaying.is_compiler("compiled")
    assert found.message.startswith("compiled it happens, and not as it was captured")
    assert replaying.is_compiler("eager").evidence["fires"] is False
    replaying.form = "compiled"
    found = replaying.is_compiler("eager")
    assert found.evidence["fires_as_captured"] is True
    assert found.evidence["fires"] is False
