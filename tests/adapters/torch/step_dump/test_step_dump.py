"""Dumps of captured steps: each tensor that is computed from one is that of a full dump."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.adapters.torch.optimizer_trainings import OPTIMIZERS
from tests.adapters.torch.replay import stored_nets
from tests.adapters.torch.replay.stored_nets import NETS

from sonde.adapters.torch.attach import attach
from sonde.adapters.torch.step_dump.dumping import start_capture
from sonde.capture.config import CaptureConfig
from sonde.capture.options import config_from_options
from sonde.cli import step_tensors
from sonde.core.errors import ConfigError, DumpError, UsageError
from sonde.dump.reader import Dump
from sonde.dump.reading import captured_rank
from sonde.dump.tensor_record import TensorRecord
from sonde.server.dumps.contents import DumpContents
from sonde.server.dumps.index import IndexedDump
from sonde.wire.shapes import TensorName

STEP = 2
SCOPES = ("/network-", "/both-", "/optimizer-", "/generator-", "/discriminator-")
UNINITIALISED = {
    # Memory that is written later, and the workspace of a kernel.
    ("empty_like", "output", 0),
    ("bernoulli_", "input", 0),
    ("mkldnn_rnn_layer", "output", 3),
    ("mkldnn_rnn_layer_backward", "input", 11),
    ("mkldnn_rnn_layer_backward", "output", 7),
}


@pytest.fixture
def replays_here(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Execute steps in this process, which has torch already; the steps that were executed."""
    executed: list[str] = []
    real = subprocess.run

    def run(words: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        if words[1:2] != ["-m"] or not words[2].startswith("sonde."):
            return real(words, **options)
        executed.append(Path(words[3]).name)
        return subprocess.CompletedProcess(words, step_tensors.main(words[3:]), "", "")

    monkeypatch.setattr(captured_rank.subprocess, "run", run)
    return executed


def _config(path: Path, **options: Any) -> CaptureConfig:
    return config_from_options(path, {}, net_name="Net", **options)


def _trained(train: Callable[[], Any]) -> Any:
    torch.manual_seed(0)
    np.random.seed(0)
    return train()


def _step_dump(path: Path, name: str = "dropout and batch norm", **options: Any) -> Any:
    with start_capture(_config(path, as_steps=True, **options), starts_at_once=False):
        return _trained({**NETS, **OPTIMIZERS}[name])


Tensors = dict[tuple[str, str, int], TensorRecord]


def _tensors(path: Path, step: int = STEP) -> Tensors:
    return {(r.key.op, r.key.io, r.key.slot): r for r in Dump(path).tensors(step=step)}


def _inside(tensors: Tensors) -> set[tuple[str, str, int]]:
    """The tensors of ops of modules and optimizers."""
    return {key for key in tensors if any(part in key[0] for part in SCOPES)}


def _check_equal(key: tuple[str, str, int], one: TensorRecord, other: TensorRecord) -> None:
    if (one.op_type, key[1], key[2]) not in UNINITIALISED:
        left, right = one.numpy(), other.numpy()
        assert (left.dtype, left.shape) == (right.dtype, right.shape)
        assert left.tobytes() == right.tobytes(), key


@pytest.mark.parametrize("name", NETS)
def test_every_tensor_of_a_step_is_that_of_a_full_dump(
    name: str, tmp_path: Path, replays_here: list[str]
) -> None:
    bare = _trained(NETS[name])
    with attach(_config(tmp_path / "full", steps=str(STEP)), starts_at_once=False):
        _trained(NETS[name])
    assert torch.equal(bare, _step_dump(tmp_path / "steps", name, steps=str(STEP)))
    full, computed = _tensors(tmp_path / "full"), _tensors(tmp_path / "steps")
    assert replays_here == [f"step_{STEP}.rank_0"]
    inside = _inside(full)
    assert any(key[0].startswith("Gradients/") for key in inside)
    assert any(key[0].startswith("Default/optimizer-") for key in inside)
    assert set(inside) <= set(computed)
    compared = 0
    for key, record in computed.items():
        is_leaf = "/" not in key[0]
        if is_leaf and (key[0].startswith("data-") or key[0].endswith(".grad")):
            continue  # numbered, and first seen, in the order of all ops of the step
        if key not in full:
            assert is_leaf, f"{key} is an op that the full dump lacks"
            continue
        compared += 1
        _check_equal(key, full[key], record)
    assert compared > 20


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_steps_of_unusual_optimizers_are_those_of_a_full_dump(
    name: str, tmp_path: Path, replays_here: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    bare = _trained(OPTIMIZERS[name])
    with attach(_config(tmp_path / "full"), starts_at_once=False):
        _trained(OPTIMIZERS[name])
    assert torch.equal(bare, _step_dump(tmp_path / "steps", name))
    assert Dump(tmp_path / "steps").steps() == Dump(tmp_path / "full").steps() == (0, 1, 2, 3)
    for step in range(4):
        full, computed = _tensors(tmp_path / "full", step), _tensors(tmp_path / "steps", step)
        assert _inside(full) == _inside(computed), step
        for key in _inside(full):
            _check_equal(key, full[key], computed[key])
    said = capsys.readouterr().err
    assert "step-not-exact" not in said
    assert "step-without-optimizer" not in said


def test_a_step_is_executed_once_and_only_when_it_is_asked_for(
    tmp_path: Path, replays_here: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    _step_dump(tmp_path)
    dump = Dump(tmp_path)
    assert dump.steps() == dump.graph_ids() == (0, 1, 2, 3)
    assert dump.writer() == "sonde"
    assert not replays_here
    record = next(dump.tensors(step=1, op="0"))
    assert record.numpy().size
    assert "executing step 1 of rank 0 again" in capsys.readouterr().err
    assert [place.is_computed for place in dump.captured().values()] == [False, True, False, False]
    assert len(list(Dump(tmp_path).tensors(step=1))) == len(list(dump.tensors(step=1)))
    assert dump.graph(1).id == 1
    assert replays_here == ["step_1.rank_0"]


def test_only_selected_steps_are_kept_and_the_closing_line_says_how_to_read_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _step_dump(tmp_path, steps="1|3")
    assert Dump(tmp_path).steps() == (1, 3)
    assert f"2 captured steps in {tmp_path / 'rank_0'}" in capsys.readouterr().err


def test_a_step_that_cannot_be_executed_is_one_clear_error(
    tmp_path: Path, replays_here: list[str]
) -> None:
    _step_dump(tmp_path, steps="1")
    step = tmp_path / "rank_0" / "steps" / "step_1.rank_0"
    (step / "modules.pickle").unlink()
    dump = Dump(tmp_path)
    for read in (lambda: dump.graph(1), lambda: next(dump.tensors(step=1))):
        with pytest.raises(DumpError, match=r"step_1\.rank_0 cannot be executed again: "):
            read()
    assert not list((tmp_path / "rank_0" / ".replayed").iterdir())
    assert len(replays_here) == 1


def test_a_full_disk_ends_the_dump_and_not_the_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = _trained(NETS["lstm"])
    with start_capture(_config(tmp_path, as_steps=True), starts_at_once=False):
        (tmp_path / "rank_0" / "steps").write_text("in the way")
        assert torch.equal(bare, _trained(NETS["lstm"]))
    lines = [line for line in capsys.readouterr().err.splitlines() if "no more steps" in line]
    assert len(lines) == 1
    assert lines[0].endswith("[step-not-written]")


def test_the_configuration_file_has_the_same_choice(tmp_path: Path) -> None:
    config = _config(tmp_path, as_steps=True)
    assert json.loads(config.text)["common_dump_settings"]["saved_data"] == "step"


def test_manual_steps_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--step-by manual"):
        start_capture(_config(tmp_path, as_steps=True), starts_at_once=True, step_by="manual")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("--stats", {"stats": True}),
        ("--overflow", {"overflow": True}),
        ("--graph", {"graph": True}),
        ("--dump-memory", {"memory_budget": 1 << 30}),
    ],
)
def test_options_of_other_dumps_are_refused(
    name: str, given: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=f"--as-steps cannot be combined with {name}"):
        _config(tmp_path, as_steps=True, **given)


def test_what_was_computed_with_other_code_is_reported_each_time_it_is_read(
    tmp_path: Path,
    replays_here: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _step_dump(tmp_path, "structured arguments", steps="1")
    real = stored_nets.Structured.forward

    def changed(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = real(self, *args, **kwargs)
        return stored_nets.Result(result.logits * 2, result.hidden)

    with monkeypatch.context() as patched:
        patched.setattr(stored_nets.Structured, "forward", changed)
        assert list(Dump(tmp_path).tensors(step=1))
    assert "is not that of the training, bit for bit" in capsys.readouterr().err
    assert list(Dump(tmp_path).tensors(step=1))
    assert capsys.readouterr().err.count("[step-not-exact]") == 1
    assert len(replays_here) == 1


def test_the_page_executes_only_the_step_that_is_looked_at(
    tmp_path: Path, replays_here: list[str]
) -> None:
    _step_dump(tmp_path)
    contents = DumpContents(IndexedDump(tmp_path))
    op = "Default/network-Sequential/2-ReLU/relu-op0"
    assert contents.op_tensors(0, TensorName(op, step=1)).step == 1
    points = contents.curve(0, TensorName(op)).points
    assert [each.step for each in points] == [1]
    assert replays_here == ["step_1.rank_0"]
