"""Twelve planted faults: each is named with its line and rows, and kept; training goes on."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
import torch
from tests.adapters.torch.monitor.faulty_trainings import FAULTS
from torch.optim.optimizer import register_optimizer_step_post_hook

import sonde


@pytest.mark.parametrize("name", sorted(FAULTS))
@pytest.mark.usefixtures("nothing_compiled")
def test_a_fault_is_named_with_its_line_and_rows(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fault = FAULTS[name]
    with contextlib.suppress(IndexError, RuntimeError), sonde.guard(tmp_path, **fault.options):
        fault.train()
    said = capfd.readouterr().err.splitlines()[0]
    assert said.startswith(f"sonde: step {fault.step}: ")
    assert f"faulty_trainings.py:{fault.number}: {fault.line}" in said
    if fault.rows is not None:
        noun = "row" if len(fault.rows) == 1 else "rows"
        assert f" {noun} {', '.join(map(str, fault.rows))} of " in said
    assert "not known" not in said
    for words in fault.says:
        assert words in said
    kept = tmp_path / f"step_{fault.step}.rank_0"
    assert said.endswith(f"; kept in {kept}")
    manifest = json.loads((kept / "manifest.json").read_text())
    assert manifest["step"] == fault.step
    assert manifest["trigger"]["text"] in said


@pytest.mark.parametrize("snapshot_every", [0, 2])
@pytest.mark.parametrize("name", sorted(FAULTS))
@pytest.mark.usefixtures("nothing_compiled")
def test_a_training_with_a_fault_goes_on_bit_for_bit(
    name: str, snapshot_every: int, tmp_path: Path
) -> None:
    def trained() -> list[bytes]:
        torch.manual_seed(1)
        updates: list[bytes] = []

        def note(optimizer: torch.optim.Optimizer, *_: object) -> None:
            for group in optimizer.param_groups:
                for each in group["params"]:
                    updates.append(each.detach().numpy().tobytes())
            updates.append(torch.get_rng_state().numpy().tobytes())

        handle = register_optimizer_step_post_hook(note)
        try:
            with contextlib.suppress(IndexError, RuntimeError):
                FAULTS[name].train()
        finally:
            handle.remove()
        return updates

    bare = trained()
    torch._dynamo.reset()
    with sonde.guard(tmp_path, snapshot_every=snapshot_every):
        guarded = trained()
    assert len(bare) > 3
    if name != "nondeterministic op":  # It differs in every execution, also in a replay.
        assert guarded == bare
