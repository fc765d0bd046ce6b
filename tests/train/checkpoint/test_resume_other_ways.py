"""Resuming stopped runs, loops of your own, other datasets, and runs that cannot be resumed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.train.checkpoint.resuming import (
    EPOCHS,
    KilledError,
    Recorder,
    assert_same_weights,
    build_adamw,
    run,
    seed,
    shuffled,
)
from tests.train.nets import classifier, data, loader, sgd
from torch import Tensor, nn

from sonde.core.errors import UsageError
from sonde.core.files.mindspore_ckpt import CheckpointError
from sonde.train import (
    Callback,
    CheckpointConfig,
    History,
    LambdaCallback,
    LossMonitor,
    Model,
    ModelCheckpoint,
    RunContext,
    SaveBest,
    callbacks,
)
from sonde.train.loss_scale import DynamicLossScaleUpdateCell
from sonde.train.one_step import TrainOneStepWithLossScaleCell, WithLossCell


def stop_after(step: int) -> Callback:
    def look(context: RunContext) -> None:
        if context.original_args().cur_step_num == step:
            context.request_stop()

    return LambdaCallback(on_train_step_end=look)


@pytest.mark.parametrize("every", ["step", "epoch"])
@pytest.mark.parametrize("stop", [2, 4, 7])
def test_a_run_that_a_callback_stopped_continues_in_that_epoch_bit_for_bit(
    stop: int, every: str, tmp_path: Path
) -> None:
    def fit(more: list[Callback], resume: Path | None = None) -> tuple[dict[str, Tensor], History]:
        seed(99 if resume else 11)
        network = classifier(dropout=0.5)
        optimizer = build_adamw(network)
        model = Model(
            network,
            nn.CrossEntropyLoss(),
            optimizer,
            metrics={"accuracy"},
            scheduler=torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.7),
            scheduler_every=every,
        )
        history = History()
        # Iterating over the valid dataset draws from torch's generator, also where a run stops.
        model.fit(EPOCHS, shuffled(), shuffled(), callbacks=[*more, history], resume=resume)
        return dict(network.state_dict()), history

    weights, history = fit([])
    # Saves only at the end of training, after the hooks of the broken epoch.
    saver = ModelCheckpoint("run", tmp_path, CheckpointConfig(1000))
    fit([stop_after(stop), saver])
    resumed_weights, resumed_history = fit([], tmp_path)
    assert_same_weights(resumed_weights, weights)
    assert resumed_history.epoch == {"epoch": [1, 2, 3]}
    assert resumed_history.history == history.history


def test_a_stopped_run_whose_state_cannot_be_saved_ends_well_without_checkpoints() -> None:
    class Strange(Callback):
        def state_dict(self) -> dict[str, Any]:
            return {"thing": object()}

    network = classifier()
    recorder = Recorder()
    model = Model(network, nn.CrossEntropyLoss(), sgd(network))
    model.train(EPOCHS, loader(), [Strange(), stop_after(2), recorder])
    assert list(recorder.losses) == [1, 2]


@pytest.mark.parametrize("every", ["step", "epoch"])
def test_a_run_continues_from_the_best_checkpoint_with_the_next_epoch(
    every: str, tmp_path: Path
) -> None:
    def train(more: list[Callback], resume: Path | None = None) -> dict[str, Tensor]:
        seed(99 if resume else 11)
        network = classifier(dropout=0.5)
        optimizer = sgd(network)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.7)
        model = Model(
            network,
            nn.CrossEntropyLoss(),
            optimizer,
            scheduler=scheduler,
            scheduler_every=every,
        )
        model.train(EPOCHS, shuffled(), more, resume=resume)
        return dict(network.state_dict())

    def die(context: RunContext) -> None:
        if context.original_args().cur_epoch_num == 2:
            raise KilledError

    best = SaveBest("loss", directory=tmp_path, verbose=False)
    whole = train([])
    with pytest.raises(KilledError):
        train([best, LambdaCallback(on_train_epoch_begin=die)])
    assert_same_weights(train([], tmp_path / "best.ckpt"), whole)


def test_a_network_that_is_a_whole_step_resumes_with_its_optimizer_and_scale(
    tmp_path: Path,
) -> None:
    def make() -> tuple[Model, Any]:
        network = classifier(dropout=0.5)
        scale = DynamicLossScaleUpdateCell(2**10, 2, 3)
        with_loss = WithLossCell(network, nn.CrossEntropyLoss())
        return Model(TrainOneStepWithLossScaleCell(with_loss, sgd(network), scale)), shuffled()

    _, weights = run(make)
    run(make, die_after=5, directory=tmp_path)
    _, resumed = run(make, resume=tmp_path)
    assert weights["_extra_state"].tolist() == [2**14, 2**14, 0, 0]  # 12 steps: doubled four times
    assert_same_weights(resumed, weights)


def test_a_loss_scale_is_part_of_the_state(tmp_path: Path) -> None:
    from sonde.train.loss_scale import DynamicLossScaleManager

    def make() -> tuple[Model, Any]:
        network = classifier(dropout=0.5)
        scale = DynamicLossScaleManager(init_loss_scale=1024, scale_factor=2, scale_window=3)
        model = Model(network, nn.CrossEntropyLoss(), sgd(network), loss_scale_manager=scale)
        return model, shuffled()

    scales: list[float] = []
    note = LambdaCallback(on_train_step_end=lambda c: scales.append(c.original_args().loss_scale))
    run(make, more=(note,))
    whole, scales[:] = list(scales), []
    assert whole[0] == 1024
    assert whole[-1] > 1024
    run(make, die_after=7, directory=tmp_path)
    run(make, resume=tmp_path, more=(note,))
    assert scales == whole[7:]


def test_one_s_own_loop_resumes_bit_for_bit(tmp_path: Path) -> None:
    def train(die_after: int | None, directory: Path | None, resume: Path | None) -> Any:
        seed(99 if resume else 11)
        network = classifier(dropout=0.5)
        optimizer = build_adamw(network)
        recorder = Recorder(die_after)
        listed: list[Callback] = [ModelCheckpoint("run", directory)] if directory else []
        dataset = shuffled()
        with callbacks(
            [*listed, recorder], network=network, optimizer=optimizer, resume=resume
        ) as cb:
            for _ in cb.epochs(EPOCHS):
                for x, y in cb.steps(dataset):
                    optimizer.zero_grad()
                    cb.loss = nn.functional.cross_entropy(network(x), y)
                    cb.loss.backward()
                    optimizer.step()
        return recorder.losses

    whole = train(None, None, None)
    with pytest.raises(KilledError):
        train(6, tmp_path, None)
    assert train(None, None, tmp_path) == {step: whole[step] for step in range(7, 13)}


def test_batches_of_a_generator_are_skipped_to_where_the_run_stopped(tmp_path: Path) -> None:
    x, y = data()

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        for start in range(0, 32, 8):
            yield x[start : start + 8], y[start : start + 8]

    def train(die_after: int | None, resume: Path | None) -> dict[int, float]:
        seed(99 if resume else 11)
        network = classifier(dropout=0.5)
        model = Model(network, nn.CrossEntropyLoss(), sgd(network))
        recorder = Recorder(die_after)
        model.train(1, batches(), [ModelCheckpoint("run", tmp_path), recorder], resume=resume)
        return recorder.losses

    with pytest.raises(KilledError):
        train(2, None)
    resumed = train(None, tmp_path)
    assert list(resumed) == [3, 4]


class StatefulBatches:
    """A dataset that knows its own place, as torchdata's StatefulDataLoader does."""

    def __init__(self) -> None:
        self.position = 0
        self.given: list[int] = []

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        x, y = data()
        while self.position < 4:
            start = self.position * 8
            self.given.append(self.position)
            self.position += 1
            yield x[start : start + 8], y[start : start + 8]
        self.position = 0

    def state_dict(self) -> dict[str, Any]:
        return {"position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.position = state["position"]


def test_a_dataset_with_a_state_restores_it_and_nothing_is_read_twice(tmp_path: Path) -> None:
    def train(die_after: int | None, resume: Path | None) -> tuple[list[int], dict[int, float]]:
        seed(11)
        network = classifier()
        dataset = StatefulBatches()
        recorder = Recorder(die_after)
        model = Model(network, nn.CrossEntropyLoss(), sgd(network))
        listed = [ModelCheckpoint("run", tmp_path), recorder]
        if die_after:
            with pytest.raises(KilledError):
                model.train(2, dataset, listed)
        else:
            model.train(2, dataset, listed, resume=resume)
        return dataset.given, recorder.losses

    train(2, None)
    given, losses = train(None, tmp_path)
    assert given == [2, 3, 0, 1, 2, 3]
    assert list(losses) == [3, 4, 5, 6, 7, 8]


def test_resuming_from_an_empty_directory_starts_afresh(tmp_path: Path) -> None:
    network = classifier()
    recorder = Recorder()
    model = Model(network, nn.CrossEntropyLoss(), sgd(network))
    model.train(1, loader(), recorder, resume=tmp_path / "later")
    assert list(recorder.losses) == [1, 2, 3, 4]


def test_resuming_from_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    network = classifier()
    model = Model(network, nn.CrossEntropyLoss(), sgd(network))
    with pytest.raises(CheckpointError, match="nothing to resume from"):
        model.train(1, loader(), resume=tmp_path / "gone.ckpt")


def test_resuming_with_fewer_batches_is_an_error(tmp_path: Path) -> None:
    network = classifier()
    model = Model(network, nn.CrossEntropyLoss(), sgd(network))
    with pytest.raises(KilledError):
        model.train(1, loader(), [ModelCheckpoint("run", tmp_path), Recorder(3)])
    with pytest.raises(UsageError, match=r"has 2 batches; the checkpoint was made after batch 3"):
        model.train(1, loader(16), resume=tmp_path)


def test_resuming_another_network_names_the_weights_that_do_not_fit(tmp_path: Path) -> None:
    network = classifier()
    model = Model(network, nn.CrossEntropyLoss(), sgd(network))
    model.train(1, loader(), ModelCheckpoint("run", tmp_path))
    other = nn.Sequential(nn.Linear(4, 2))
    with pytest.raises(CheckpointError, match=r"0\.weight is \(8, 4\) in the checkpoint"):
        Model(other, nn.CrossEntropyLoss(), sgd(other)).train(2, loader(), resume=tmp_path)


def test_weights_alone_cannot_be_resumed_from(tmp_path: Path) -> None:
    network = classifier()
    model = Model(network, nn.CrossEntropyLoss(), sgd(network))
    config = CheckpointConfig(training_state=False)
    model.train(1, loader(), ModelCheckpoint("run", tmp_path, config))
    with pytest.raises(CheckpointError, match="holds weights only"):
        model.train(2, loader(), resume=tmp_path / "run-1_4.ckpt")


def test_training_with_checkpoints_changes_nothing(tmp_path: Path) -> None:
    def make() -> tuple[Model, Any]:
        network = classifier(dropout=0.5)
        return Model(network, nn.CrossEntropyLoss(), sgd(network)), shuffled()

    losses, weights = run(make)
    watched, same = run(make, directory=tmp_path, more=(LossMonitor(0),))
    assert watched == losses
    assert_same_weights(same, weights)
