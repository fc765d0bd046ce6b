"""Going back from a snapshot: the step that spoiled the weights is found, kept and exact."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from tests.adapters.torch.monitor.faulty_trainings import FAULTS, SPIKE_STEP
from tests.adapters.torch.monitor.test_actions import Training, same
from torch import nn

import sonde
from sonde.adapters.torch.replay.run_again import run_again
from sonde.adapters.torch.replay.storage import read_step
from sonde.replay.manifest import read_manifest


@pytest.mark.parametrize("every", [1, 2, 3, 50])
def test_the_update_that_wrote_nan_is_named_and_its_step_kept(
    every: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with sonde.guard(tmp_path, snapshot_every=every):
        FAULTS["NaN in the optimizer"].train()
    said = capfd.readouterr().err
    assert "the update of step 2 by Adam made weight non-finite, its gradient was finite" in said
    assert f"step 2 is kept in {tmp_path}/step_2.rank_0" in said
    assert "not bit for bit" not in said
    assert f"next: sonde replay {tmp_path}/step_2.rank_0 --debug" in said
    manifest = read_manifest(tmp_path / "step_2.rank_0")
    assert manifest.optimizer is not None
    assert manifest.optimizer.state is not None
    record = read_step(tmp_path / "step_2.rank_0")
    weights = [each for call in record.calls for each in call.module.parameters()]
    assert all(torch.isfinite(each).all() for each in weights)
    assert run_again(record).plain.error is None


def test_a_spike_also_keeps_the_step_before(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with sonde.guard(tmp_path, snapshot_every=20):
        FAULTS["spike"].train()
    said = capfd.readouterr().err
    assert f"step {SPIKE_STEP - 1} is kept in {tmp_path}/step_{SPIKE_STEP - 1}.rank_0" in said
    assert f"next: sonde replay {tmp_path}/step_{SPIKE_STEP}.rank_0 --debug" in said


def test_an_update_without_snapshots_is_still_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with sonde.guard(tmp_path):
        FAULTS["NaN in the optimizer"].train()
    assert "the update of step 2 by Adam made weight non-finite" in capfd.readouterr().err


def test_weights_that_the_program_spoils_are_not_blamed_on_an_update(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with sonde.guard(tmp_path, snapshot_every=2):
        training = Training(bad=False).run(3)
        with torch.no_grad():
            next(training.net.parameters())[0, 0] = math.nan
        training.run(1)
    said = capfd.readouterr().err
    assert "the update of step 2 or code before this step wrote them" in said
    assert "not bit for bit" in said


@pytest.mark.parametrize("every", [1, 3])
def test_a_training_with_snapshots_is_bit_identical(every: int, tmp_path: Path) -> None:
    bare = Training().run().state()
    with sonde.guard(tmp_path, snapshot_every=every):
        guarded = Training().run().state()
    assert same(bare, guarded)


def test_records_since_a_snapshot_do_not_keep_what_steps_computed(tmp_path: Path) -> None:
    alive: list[int] = []

    class Big(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(2, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found = self.fc(x)
            storage = found.untyped_storage()
            alive.append(storage.nbytes())
            _FINALIZERS.append(_Alive(storage))
            return found  # type: ignore[no-any-return]

    _FINALIZERS.clear()
    net = Big()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with sonde.guard(tmp_path, snapshot_every=100):
        for _ in range(6):
            optimizer.zero_grad()
            net(torch.randn(4, 2)).square().mean().backward()
            optimizer.step()
        assert sum(each.is_alive for each in _FINALIZERS[:-1]) == 0


class _Alive:
    """Whether memory of torch still exists."""

    def __init__(self, storage: torch.UntypedStorage) -> None:
        import weakref

        self._reference = weakref.ref(storage)

    @property
    def is_alive(self) -> bool:
        return self._reference() is not None


_FINALIZERS: list[_Alive] = []
