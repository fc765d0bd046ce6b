"""A resumed run equals the uninterrupted one, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.train.checkpoint.resuming import (
    DATASETS,
    Augmented,
    Build,
    Recorder,
    assert_same_weights,
    build_adamw,
    build_sgd,
    run,
    seed,
    shuffled,
)
from tests.train.nets import classifier, loader, sgd
from torch import nn
from torch.utils.data import DataLoader

from sonde.train import (
    CheckpointConfig,
    EarlyStopping,
    History,
    LambdaCallback,
    Model,
    ModelCheckpoint,
    ReduceLROnPlateau,
    RunContext,
    load_training_state,
)


@pytest.mark.parametrize("build", [build_sgd, build_adamw], ids=["sgd", "adamw"])
@pytest.mark.parametrize("make_dataset", DATASETS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("die_after", [2, 4, 5])
def test_a_run_with_dropout_and_shuffling_resumes_bit_for_bit(
    build: Build, make_dataset: Callable[[], Any], die_after: int, tmp_path: Path
) -> None:
    def make() -> tuple[Model, Any]:
        network = classifier(dropout=0.5)
        seed_free_dataset = make_dataset()
        return Model(network, nn.CrossEntropyLoss(), build(network)), seed_free_dataset

    losses, weights = run(make)
    run(make, die_after=die_after, directory=tmp_path)
    resumed_losses, resumed_weights = run(make, resume=tmp_path)
    assert min(resumed_losses) == die_after + 1
    assert resumed_losses == {step: losses[step] for step in resumed_losses}
    assert max(resumed_losses) == max(losses)
    assert_same_weights(resumed_weights, weights)


@pytest.mark.parametrize("format", ["ckpt", "safetensors", "pt"])
def test_every_format_carries_the_whole_state(format: str, tmp_path: Path) -> None:
    def make() -> tuple[Model, Any]:
        network = classifier(dropout=0.5)
        return Model(network, nn.CrossEntropyLoss(), build_adamw(network)), shuffled()

    losses, weights = run(make)
    run(make, die_after=6, directory=tmp_path, format=format)
    assert {path.suffix for path in tmp_path.iterdir()} == {f".{format}"}
    resumed_losses, resumed_weights = run(make, resume=tmp_path)
    assert resumed_losses == {step: losses[step] for step in range(7, 13)}
    assert_same_weights(resumed_weights, weights)


def test_worker_processes_are_replayed_too(tmp_path: Path) -> None:
    def make() -> tuple[Model, Any]:
        network = classifier(dropout=0.5)
        workers = DataLoader(Augmented(), batch_size=8, shuffle=True, num_workers=2)
        return Model(network, nn.CrossEntropyLoss(), sgd(network)), workers

    losses, weights = run(make)
    run(make, die_after=6, directory=tmp_path)
    resumed_losses, resumed_weights = run(make, resume=tmp_path)
    assert resumed_losses == {step: losses[step] for step in range(7, 13)}
    assert_same_weights(resumed_weights, weights)


@pytest.mark.parametrize("every", ["step", "epoch"])
def test_the_learning_rate_schedule_continues_where_it_was(every: str, tmp_path: Path) -> None:
    rates: list[float] = []

    def make() -> tuple[Model, Any]:
        network = classifier(dropout=0.5)
        optimizer = sgd(network)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        model = Model(
            network,
            nn.CrossEntropyLoss(),
            optimizer,
            scheduler=scheduler,
            scheduler_every=every,
        )
        return model, shuffled()

    def note(context: RunContext) -> None:
        rates.append(context.original_args().optimizer.param_groups[0]["lr"])

    losses, _ = run(make, more=(LambdaCallback(on_train_step_begin=note),))
    uninterrupted, rates[:] = list(rates), []
    run(make, die_after=4, directory=tmp_path)
    resumed, _ = run(make, resume=tmp_path, more=(LambdaCallback(on_train_step_begin=note),))
    assert rates == uninterrupted[4:]
    assert resumed == {step: losses[step] for step in range(5, 13)}


def test_a_schedule_object_with_functions_among_its_attributes_can_be_saved(
    tmp_path: Path,
) -> None:
    class WarmUp:
        def __init__(self) -> None:
            self.steps = 10
            self.min = torch.minimum

        def __call__(self, step: int) -> float:
            return min(step + 1, self.steps) / self.steps

    network = classifier()
    optimizer = sgd(network)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, WarmUp())
    model = Model(network, nn.CrossEntropyLoss(), optimizer, scheduler=scheduler)
    model.train(1, loader(), ModelCheckpoint("run", tmp_path))
    state = load_training_state(tmp_path / "run-1_4.ckpt")
    assert state["scheduler"]["lr_lambdas"] == [{"steps": 10}]
    assert state["scheduler"]["last_epoch"] == 4


@pytest.mark.parametrize("die_after", [8, 9])
def test_callbacks_get_their_state_back(die_after: int, tmp_path: Path) -> None:
    def make() -> tuple[Model, Any]:
        network = classifier()
        return Model(network, nn.CrossEntropyLoss(), sgd(network)), shuffled()

    whole = History()
    run(make, more=(whole,))
    run(make, die_after=die_after, directory=tmp_path, more=(History(),))
    resumed = History()
    run(make, resume=tmp_path, more=(resumed,))
    assert resumed.epoch == {"epoch": [1, 2, 3]}
    assert resumed.history == whole.history


def test_plateau_callbacks_keep_counting_after_a_resume(tmp_path: Path) -> None:
    def train(epochs: int, resume: Path | None) -> tuple[EarlyStopping, float]:
        network = classifier()
        optimizer = sgd(network, 1e-30)  # never improves
        stopper = EarlyStopping("loss", patience=4)
        lower = ReduceLROnPlateau("loss", factor=0.5, patience=2)
        model = Model(network, nn.CrossEntropyLoss(), optimizer)
        saver = ModelCheckpoint("run", tmp_path, CheckpointConfig(4))
        model.train(epochs, loader(), [stopper, lower, saver], resume=resume)
        return stopper, optimizer.param_groups[0]["lr"]

    stopper, rate = train(2, None)
    assert (stopper.stopped_epoch, rate) == (0, 1e-30)
    stopper, rate = train(10, tmp_path)
    # Epoch 1 is the best; 2 and 3 lower the rate, 4 and 5 lower it again and stop.
    assert (stopper.stopped_epoch, rate) == (5, 0.25e-30)


def test_a_finished_run_continues_with_the_next_epoch(tmp_path: Path) -> None:
    def train(epochs: int, resume: Path | None) -> tuple[dict[int, float], list[str]]:
        seed(99 if resume else 11)
        network = classifier(dropout=0.5)
        events: list[str] = []
        recorder = Recorder()
        model = Model(network, nn.CrossEntropyLoss(), sgd(network))
        hooks = LambdaCallback(
            on_train_epoch_begin=lambda c: events.append(f"+{c.original_args().cur_epoch_num}"),
            on_train_epoch_end=lambda c: events.append(f"-{c.original_args().cur_epoch_num}"),
        )
        # Saves only at the end of training, after the last epoch's end.
        saver = ModelCheckpoint("run", tmp_path / str(epochs), CheckpointConfig(1000))
        model.train(epochs, shuffled(), [hooks, saver, recorder], resume=resume)
        return recorder.losses, events

    whole, _ = train(4, None)
    train(2, None)
    resumed, events = train(4, tmp_path / "2")
    assert events == ["+3", "-3", "+4", "-4"]
    assert resumed == {step: whole[step] for step in range(9, 17)}


def test_a_run_resumed_under_another_prefix_leaves_all_older_files_alone(tmp_path: Path) -> None:
    def train(epochs: int, prefix: str, resume: Path | None = None) -> None:
        network = classifier()
        saver = ModelCheckpoint(prefix, tmp_path, CheckpointConfig(1, keep_checkpoint_max=2))
        model = Model(network, nn.CrossEntropyLoss(), sgd(network))
        model.train(epochs, loader(), saver, resume=resume)

    train(1, "a")
    train(1, "b")
    train(2, "b", tmp_path / "a-1_4.ckpt")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("a-1_3.ckpt", "a-1_4.ckpt"),
        *("b-1_3.ckpt", "b-1_4.ckpt"),
        *("b_1-2_3.ckpt", "b_1-2_4.ckpt"),
    ]


def test_resuming_a_run_that_is_done_trains_nothing(tmp_path: Path) -> None:
    network = classifier()
    model = Model(network, nn.CrossEntropyLoss(), sgd(network))
    config = CheckpointConfig(1000)
    model.train(2, loader(), ModelCheckpoint("run", tmp_path, config))
    weights = {name: value.clone() for name, value in network.state_dict().items()}
    recorder = Recorder()
    model.train(2, loader(), [ModelCheckpoint("run", tmp_path, config), recorder], resume=tmp_path)
    assert recorder.losses == {}
    assert [path.name for path in tmp_path.iterdir()] == ["run-2_4.ckpt"]
    assert_same_weights(dict(network.state_dict()), weights)


def test_a_run_killed_after_the_last_step_of_an_epoch_still_ends_that_epoch(tmp_path: Path) -> None:
    def make() -> tuple[Model, Any]:
        network = classifier()
        return Model(network, nn.CrossEntropyLoss(), sgd(network)), shuffled()

    ended: list[int] = []
    hook = LambdaCallback(
        on_train_epoch_end=lambda c: ended.append(c.original_args().cur_epoch_num)
    )
    run(make, die_after=4, directory=tmp_path)
    run(make, resume=tmp_path, more=(hook,))
    assert ended == [1, 2, 3]
