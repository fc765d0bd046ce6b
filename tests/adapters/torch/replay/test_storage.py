"""A step that is written to disk and read again is executed bit for bit."""

from __future__ import annotations

import dataclasses
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.adapters.torch.replay.recording import Recorded, recording
from tests.adapters.torch.replay.stored_nets import NETS

from sonde.adapters.torch.replay.execution import execute
from sonde.adapters.torch.replay.recorder import StepRecorder
from sonde.adapters.torch.replay.step_record import (
    BackwardPass,
    ModuleCall,
    ModuleState,
    OutsideOp,
    StepRecord,
)
from sonde.adapters.torch.replay.storage import read_step, tensor_files, write_step
from sonde.replay.errors import ReplayError
from sonde.replay.manifest import CapturedOp, Manifest, StoredBackward, StoredCall


def captured(train: Callable[[], Any], directory: Path, *, step: int = 2, **options: Any) -> Path:
    """Train, and write the step ``step``; the directory of the captured step."""
    places = []

    def use(record: StepRecord, recorder: StepRecorder, found: Recorded) -> None:
        with recorder.replaying():
            if len(found.executions) == step:
                places.append(write_step(record, directory, None, {"loss": 1.0}, **options))
            found.executions.append(execute(record))

    torch.manual_seed(0)
    with recording(use) as found:
        train()
    assert not found.errors
    return places[0].path


@pytest.mark.parametrize("name", NETS)
def test_a_step_from_disk_is_exact(tmp_path: Path, name: str) -> None:
    path = captured(NETS[name], tmp_path)
    torch.manual_seed(99)  # the random states are those of the step
    done = execute(read_step(path))
    assert done.error is None
    assert done.is_exact, (done.differences, done.reasons)
    assert done.compared >= 2


def test_the_training_does_not_notice_that_a_step_is_written(tmp_path: Path) -> None:
    torch.manual_seed(0)
    bare = NETS["dropout and batch norm"]()
    kept = []

    def use(record: StepRecord, recorder: StepRecorder, found: Recorded) -> None:
        with recorder.replaying():
            kept.append(write_step(record, tmp_path, None, {}))

    torch.manual_seed(0)
    with recording(use):
        seen = NETS["dropout and batch norm"]()
    assert len(kept) == 4
    assert torch.equal(bare, seen)


def test_the_optimizer_is_rebuilt_with_its_settings_and_state(tmp_path: Path) -> None:
    path = captured(NETS["dropout and batch norm"], tmp_path, keeps_optimizer_state=True)
    optimizer = read_step(path).optimizer
    assert isinstance(optimizer, torch.optim.AdamW)
    assert optimizer.param_groups[0]["lr"] == 0.01
    assert len(optimizer.state) == len(optimizer.param_groups[0]["params"])
    assert all(each["step"] == 2 for each in optimizer.state.values())


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_fails_leaves_nothing_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(tensor_files, "write_safetensors", fail)
    with pytest.raises(ReplayError, match=os.strerror(number)) as error:
        captured(NETS["tied weights"], tmp_path)
    assert error.value.slug == "step-not-written"
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ReplayError, match="was not kept"):
        captured(NETS["tied weights"], tmp_path / "file" / "steps")


NOT_STORED = {
    # Counts of writes are those of this process.
    ModuleCall: {"weight_versions", "is_pending", "number", "is_compiled", "name", "state"},
    ModuleState: {"versions"},
    OutsideOp: set(),
    BackwardPass: {"number"},
    StepRecord: {"averaged", "scaling", "owners", "has_optimizer_state"},
}


@pytest.mark.parametrize(
    ("kind", "stored"),
    [
        (ModuleCall, (StoredCall,)),
        (ModuleState, (StoredCall,)),
        (OutsideOp, (CapturedOp,)),
        (BackwardPass, (StoredBackward,)),
        (StepRecord, (Manifest,)),
    ],
)
def test_every_field_of_a_record_is_in_the_manifest(kind: Any, stored: tuple[Any, ...]) -> None:
    names = {each.name for each in dataclasses.fields(kind)}
    known = {name for each in stored for name in each.__struct_fields__}
    assert names - known == NOT_STORED[kind]
