"""What a guard does at a trigger, and that the training is otherwise what it would have been."""

from __future__ import annotations

import math
import os
import signal
from pathlib import Path

import pytest
import torch
from torch import nn

import sonde
from sonde.core.errors import UsageError
from sonde.monitor import GuardStopped

BAD = 3
STEPS = 7


class Training:
    """Trains a small network; step ``BAD`` has a row of -inf that makes its loss NaN."""

    def __init__(self, *, bad: bool = True) -> None:
        torch.manual_seed(0)
        layers = (nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 1))
        self.net = nn.Sequential(*layers)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=0.01)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 2)
        self.losses: list[float] = []
        self.bad = bad

    def run(self, steps: int = STEPS, at: int = BAD) -> Training:
        for step in range(steps):
            x = torch.randn(8, 4)
            if self.bad and step == at:
                x[5, 1] = -math.inf
            self.optimizer.zero_grad()
            loss = self.net(x).square().mean()
            loss.backward()
            self.optimizer.step()
            self.scheduler.step()
            self.losses.append(loss.item())
        return self

    def state(self) -> list[torch.Tensor]:
        found = [*self.net.state_dict().values()]
        for each in self.optimizer.state.values():
            found += [value for value in each.values() if isinstance(value, torch.Tensor)]
        found += [p.grad for p in self.net.parameters() if p.grad is not None]
        return [*found, torch.get_rng_state(), torch.tensor(self.losses)]


def same(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    """Bit for bit, NaN included."""
    return len(one) == len(other) and all(
        a.dtype == b.dtype
        and a.contiguous()
        .view(-1)
        .view(torch.uint8)
        .equal(b.contiguous().view(-1).view(torch.uint8))
        for a, b in zip(one, other, strict=True)
    )


def test_a_training_that_triggers_continues_bit_for_bit(tmp_path: Path) -> None:
    bare = Training().run().state()
    with sonde.guard(tmp_path):
        guarded = Training().run().state()
    assert same(bare, guarded)
    assert sonde.signals(tmp_path)["triggers"].tolist()[:BAD] == [0] * BAD
    assert sonde.signals(tmp_path)["triggers"][BAD]


def test_skip_leaves_weights_and_optimizer_as_they_were(tmp_path: Path) -> None:
    with sonde.guard(tmp_path, on_trigger="skip"):
        training = Training()
        training.run(BAD)
        before = [each.clone() for each in training.net.parameters()]
        state = [
            each.clone() for known in training.optimizer.state.values() for each in known.values()
        ]
        training.run(1, at=0)
    assert math.isnan(training.losses[-1])
    assert same(before, [each.detach() for each in training.net.parameters()])
    after = [each for known in training.optimizer.state.values() for each in known.values()]
    assert same(state, after)
    assert all(each.grad is not None for each in training.net.parameters())
    assert sonde.signals(tmp_path)["is_skipped"].tolist() == [0] * BAD + [1]
    # A scheduler of the program counts the step.
    assert training.scheduler.last_epoch == BAD + 1


def test_stop_raises_before_the_update(tmp_path: Path) -> None:
    training = Training()
    with (
        pytest.raises(GuardStopped, match=r"step 3: the loss is nan"),
        sonde.guard(tmp_path, on_trigger="stop"),
    ):
        training.run()
    assert len(training.losses) == BAD
    assert all(torch.isfinite(each).all() for each in training.net.parameters())


def test_requests_of_the_program_are_kept_and_neither_skip_nor_stop(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with sonde.guard(tmp_path, on_trigger="stop"):
        training = Training(bad=False)
        training.run(2)
        sonde.trigger("looks odd")
        training.run(1)
        os.kill(os.getpid(), signal.SIGUSR2)
        training.run(1)
    said = capfd.readouterr().err
    assert "step 2: the program asked for it: looks odd" in said
    assert "step 3: the process received SIGUSR2" in said
    assert sonde.signals(tmp_path)["triggers"].tolist() == [0, 0, 1, 1]
    assert signal.getsignal(signal.SIGUSR2) == signal.SIG_DFL
    sonde.trigger("without a guard this does nothing")


def test_a_handler_of_the_program_for_sigusr2_stays(tmp_path: Path) -> None:
    seen = []
    signal.signal(signal.SIGUSR2, lambda *_: seen.append(1))
    try:
        with sonde.guard(tmp_path):
            os.kill(os.getpid(), signal.SIGUSR2)
            Training(bad=False).run(1)
    finally:
        signal.signal(signal.SIGUSR2, signal.SIG_DFL)
    assert seen == [1]
    assert not sonde.signals(tmp_path)["triggers"].any()


def test_consecutive_steps_with_one_cause_are_kept_once_and_counted(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with sonde.guard(tmp_path):
        Training().run()
    said = capfd.readouterr().err
    assert said.count("the loss is nan") == 2  # The line of the step, and the end line.
    assert f"guarded {STEPS} steps, {STEPS - BAD} of them triggered, first step 3" in said


def test_at_most_so_many_steps_are_kept(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with sonde.guard(tmp_path, keep=2, triggers="loss > 0 and step != 2 and step != 4"):
        Training(bad=False).run()
    kept = sorted(each.name for each in tmp_path.glob("step_*"))
    assert kept == ["step_0.rank_0", "step_3.rank_0"]
    assert "5 of them triggered" in capfd.readouterr().err


def test_two_guards_are_refused_and_options_are_checked(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match="guard-twice"),
        sonde.guard(tmp_path),
        sonde.guard(tmp_path),
    ):
        pass
    for wrong in (
        {"keep": -1},
        {"keep": "3"},
        {"on_trigger": "explode"},
        {"snapshot_every": -2},
        {"triggers": ["loss >"]},
    ):
        with pytest.raises(UsageError), sonde.guard(tmp_path, **wrong):  # type: ignore[arg-type]
            pass


def test_a_disk_without_room_for_signals_is_said_once_and_ends_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    bare = Training(bad=False).run().state()
    with sonde.guard(tmp_path):
        guarded = Training(bad=False).run().state()
    assert same(bare, guarded)
    said = capfd.readouterr().err
    assert said.count("No space left on device") == 1
    assert "guarded 7 steps, nothing triggered; their signals could not be written" in said


def test_a_failure_of_the_guard_is_said_once_and_ends_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ValueError("broken")

    monkeypatch.setattr("sonde.adapters.torch.debugging.signals.meter.norms", broken)
    bare = Training(bad=False).run().state()
    with sonde.guard(tmp_path):
        guarded = Training(bad=False).run().state()
    assert same(bare, guarded)
    said = capfd.readouterr().err
    assert said.count("[guard-failed]") == 1
    assert "ValueError: broken" in said


def test_a_forked_child_writes_nothing(tmp_path: Path) -> None:
    with sonde.guard(tmp_path):
        training = Training(bad=False).run(2)
        child = os.fork()
        if child == 0:
            training.run(1)
            os._exit(0)
        os.waitpid(child, 0)
        training.run(1)
    assert sonde.signals(tmp_path)["step"].tolist() == [0, 1, 2]
