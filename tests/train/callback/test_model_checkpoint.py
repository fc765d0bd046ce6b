"""``ModelCheckpoint``: when it saves, what it keeps, and what a bad disk does."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import torch
from tests.core.checkpoint_bytes import decode_bytes
from tests.train.nets import classifier, loader, sgd
from torch import nn

from sonde.core.errors import SondeError
from sonde.core.files.mindspore_ckpt import CheckpointError
from sonde.train import (
    CheckpointConfig,
    LambdaCallback,
    Model,
    ModelCheckpoint,
    RunContext,
    load_checkpoint,
)
from sonde.train.callback.checkpointing import superfluous


def model() -> Model:
    network = classifier()
    return Model(network, nn.CrossEntropyLoss(), sgd(network))


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.document(
    14,
    says="`ModelCheckpoint` can save model parameters for retraining or inference",
    how="`sonde.train.ModelCheckpoint`: CKP-{epoch}_{step}.ckpt in MindSpore's format",
)
def test_by_default_every_step_is_saved_and_five_files_are_kept(tmp_path: Path) -> None:
    saver = ModelCheckpoint(directory=tmp_path)
    model().train(2, loader(), saver)
    assert names(tmp_path) == [f"CKP-{n}.ckpt" for n in ("1_4", "2_1", "2_2", "2_3", "2_4")]
    assert saver.latest_ckpt_file_name == str(tmp_path / "CKP-2_4.ckpt")


def test_every_n_steps_and_always_the_last_one(tmp_path: Path) -> None:
    model().train(2, loader(), ModelCheckpoint("net", tmp_path, CheckpointConfig(3)))
    assert names(tmp_path) == ["net-1_3.ckpt", "net-2_2.ckpt", "net-2_4.ckpt"]


@pytest.mark.document(
    64,
    says="`save_checkpoint_steps=1` in `mindspore.CheckpointConfig`: the checkpoint file for two "
    "consecutive steps",
    how="`sonde.train.CheckpointConfig(save_checkpoint_steps=1)`",
)
def test_the_document_s_two_consecutive_steps_show_the_update(tmp_path: Path) -> None:
    model().train(
        1, loader(), ModelCheckpoint("a", tmp_path, CheckpointConfig(save_checkpoint_steps=1))
    )
    first = load_checkpoint(tmp_path / "a-1_1.ckpt")
    second = load_checkpoint(tmp_path / "a-1_2.ckpt")
    assert [name for name in first if torch.equal(first[name], second[name])] == []


def test_seconds_and_steps_each_make_a_checkpoint_due() -> None:
    assert CheckpointConfig().is_due(1, 0.0)
    seconds = CheckpointConfig(save_checkpoint_seconds=30)
    assert not seconds.is_due(1000, 29.9)
    assert seconds.is_due(1, 30.0)
    both = CheckpointConfig(10, 30)
    assert both.is_due(10, 0.0)
    assert both.is_due(1, 31.0)
    assert not both.is_due(9, 29.0)


@pytest.mark.parametrize(
    ("newest", "apart", "gone"),
    [
        (0, 0, []),
        (2, 0, [0, 10, 25, 60]),
        (1, 60, [10, 25, 61]),
        (0, 60, [10, 25, 61]),
        (2, 20, [10]),
        (10, 0, []),
    ],
)
def test_files_beyond_the_configured_limits_are_superfluous(
    newest: int, apart: float, gone: list[int]
) -> None:
    times = [0, 10, 25, 60, 61, 200]
    saved = [(Path(str(moment)), float(moment)) for moment in times]
    assert [int(path.name) for path in superfluous(saved, newest, apart)] == gone


def test_a_file_is_removed_only_after_the_next_one_is_complete(tmp_path: Path) -> None:
    seen: list[int] = []

    def count(context: RunContext) -> None:
        seen.append(len(list(tmp_path.glob("*.ckpt"))))

    saver = ModelCheckpoint("a", tmp_path, CheckpointConfig(keep_checkpoint_max=1))
    model().train(1, loader(), [LambdaCallback(on_train_step_begin=count), saver])
    assert seen == [0, 1, 1, 1]


@pytest.mark.parametrize("format", ["ckpt", "safetensors", "pt"])
@pytest.mark.parametrize("async_save", [False, True])
def test_every_format_holds_the_weights_of_its_step(
    format: str, async_save: bool, tmp_path: Path
) -> None:
    network = classifier()
    optimizer = sgd(network)
    weights: list[torch.Tensor] = []

    def note(context: RunContext) -> None:
        weights.append(network[0].weight.detach().clone())

    config = CheckpointConfig(format=format, async_save=async_save)
    listed = [ModelCheckpoint("a", tmp_path, config), LambdaCallback(on_train_step_end=note)]
    Model(network, nn.CrossEntropyLoss(), optimizer).train(1, loader(), listed)
    for step, weight in enumerate(weights, start=1):
        loaded = load_checkpoint(tmp_path / f"a-1_{step}.{format}")
        assert torch.equal(loaded["0.weight"], weight)
        assert [name for name in loaded if name.startswith("sonde")] == []


def test_a_ckpt_keeps_mindspore_s_schema_with_the_state_in_values_of_their_own(
    tmp_path: Path,
) -> None:
    model().train(1, loader(), ModelCheckpoint("a", tmp_path))
    values = decode_bytes((tmp_path / "a-1_4.ckpt").read_bytes())
    assert list(values)[:4] == ["0.weight", "0.bias", "3.weight", "3.bias"]
    assert list(values)[-1] == "sonde.resume"
    assert isinstance(values["sonde.resume"], str)
    assert all(name.startswith("sonde.resume") for name in list(values)[4:])


def test_append_info_and_another_network(tmp_path: Path) -> None:
    other = nn.Linear(1, 1)
    config = CheckpointConfig(
        4,
        append_info=["epoch_num", "step_num", {"author": "me", "rate": 0.5}],
        saved_network=other,
        training_state=False,
    )
    model().train(2, loader(), ModelCheckpoint("a", tmp_path, config))
    loaded = load_checkpoint(tmp_path / "a-2_4.ckpt")
    assert list(loaded) == ["weight", "bias", "epoch_num", "step_num", "author", "rate"]
    assert (int(loaded["epoch_num"]), int(loaded["step_num"])) == (2, 8)
    assert loaded["author"] == "me"


def test_another_run_in_the_same_directory_gets_its_own_prefix(tmp_path: Path) -> None:
    for _ in range(3):
        model().train(1, loader(), ModelCheckpoint("a", tmp_path, CheckpointConfig(4)))
    assert names(tmp_path) == ["a-1_4.ckpt", "a_1-1_4.ckpt", "a_2-1_4.ckpt"]


def test_a_resumed_run_continues_with_its_prefix_and_its_count(tmp_path: Path) -> None:
    config = CheckpointConfig(4, keep_checkpoint_max=2)
    model().train(1, loader(), ModelCheckpoint("a", tmp_path, config))
    model().train(1, loader(), ModelCheckpoint("a", tmp_path, config))
    model().train(4, loader(), ModelCheckpoint("a", tmp_path, config), resume=tmp_path)
    assert names(tmp_path) == ["a-1_4.ckpt", "a_1-3_4.ckpt", "a_1-4_4.ckpt"]


def test_callbacks_after_it_find_the_newest_file(tmp_path: Path) -> None:
    seen: list[tuple[str, int]] = []

    def look(context: RunContext) -> None:
        arguments = context.original_args()
        seen.append((arguments.latest_ckpt_file, arguments.last_save_ckpt_step))

    saver = ModelCheckpoint("a", tmp_path, CheckpointConfig(2))
    model().train(1, loader(), [saver, LambdaCallback(on_train_step_end=look)])
    second, fourth = str(tmp_path / "a-1_2.ckpt"), str(tmp_path / "a-1_4.ckpt")
    assert seen == [(None, None), (second, 2), (second, 2), (fourth, 4)]


def lose(directory: Path) -> LambdaCallback:
    """Takes the directory away when training has begun."""

    def put_in_the_way(context: RunContext) -> None:
        directory.rmdir()
        directory.write_text("not a directory any more")

    return LambdaCallback(on_train_epoch_begin=put_in_the_way)


@pytest.mark.parametrize("async_save", [False, True])
def test_a_lost_disk_is_logged_and_training_continues_until_its_end(
    async_save: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "disk"
    steps: list[int] = []
    count = LambdaCallback(on_train_step_end=lambda c: steps.append(c.original_args().cur_step_num))
    saver = ModelCheckpoint("a", directory, CheckpointConfig(async_save=async_save))
    listed = [saver, lose(directory), count]
    with (
        caplog.at_level(logging.ERROR, "sonde.train"),
        pytest.raises(CheckpointError, match="the last checkpoint could not be saved") as caught,
    ):
        model().train(1, loader(), listed)
    assert caught.value.slug == "checkpoint-not-saved"
    assert steps == [1, 2, 3, 4]
    assert caplog.text.count("training goes on") >= 4


def test_a_disk_that_is_available_again_is_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "disk"

    def clear(context: RunContext) -> None:
        if context.original_args().cur_step_num == 3:
            directory.unlink()

    saver = ModelCheckpoint("a", directory)
    listed = [LambdaCallback(on_train_step_begin=clear), saver, lose(directory)]
    model().train(1, loader(), listed)
    assert names(directory) == ["a-1_3.ckpt", "a-1_4.ckpt"]
    assert caplog.text.count("not saved") == 2


def test_a_run_that_fails_still_finishes_the_write_under_way(tmp_path: Path) -> None:
    def fail(context: RunContext) -> None:
        raise RuntimeError("something else")

    config = CheckpointConfig(async_save=True)
    listed = [ModelCheckpoint("a", tmp_path, config), LambdaCallback(on_train_step_end=fail)]
    with pytest.raises(RuntimeError, match="something else"):
        model().train(1, loader(), listed)
    assert names(tmp_path) == ["a-1_1.ckpt"]


@pytest.mark.parametrize(
    "options",
    [
        {"save_checkpoint_steps": 0},
        {"keep_checkpoint_max": -1},
        {"format": "onnx"},
        {"append_info": ["loss"]},
    ],
)
def test_a_config_that_cannot_be_carried_out_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(SondeError):
        CheckpointConfig(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("prefix", ["", "a/b", ".hidden"])
def test_a_prefix_that_makes_no_file_name_is_refused(prefix: str) -> None:
    with pytest.raises(SondeError, match="prefix"):
        ModelCheckpoint(prefix)
