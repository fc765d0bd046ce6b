"""A resumed run equals the uninterrupted one, bit for bit."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.train.nets import classifier, data, loader, sgd
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, RandomSampler, TensorDataset

from sonde.core.errors import UsageError
from sonde.core.mindspore_ckpt import CheckpointError
from sonde.train import (
    Callback,
    CheckpointConfig,
    EarlyStopping,
    History,
    LambdaCallback,
    LossMonitor,
    Model,
    ModelCheckpoint,
    ReduceLROnPlateau,
    RunContext,
    SaveBest,
    callbacks,
    load_training_state,
)
from sonde.train.loss_scale import DynamicLossScaleUpdateCell
from sonde.train.one_step import TrainOneStepWithLossScaleCell, WithLossCell

EPOCHS = 3
Build = Callable[[nn.Module], torch.optim.Optimizer]


class KilledError(Exception):
    """Stands for the end of the process: nothing runs after it."""


def build_sgd(network: nn.Module) -> torch.optim.Optimizer:
    return sgd(network)


def build_adamw(network: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(network.parameters(), 0.01)


def seed(number: int) -> None:
    random.seed(number)
    np.random.seed(number)
    torch.manual_seed(number)


class Recorder(Callback):
    """The losses of all steps, and a death after one of them."""

    def __init__(self, die_after: int | None = None) -> None:
        self.losses: dict[int, float] = {}
        self._die_after = die_after

    def on_train_step_end(self, run_context: RunContext) -> None:
        arguments = run_context.original_args()
        outputs = arguments.net_outputs
        loss = outputs[0] if isinstance(outputs, tuple) else outputs
        self.losses[arguments.cur_step_num] = float(loss)
        if arguments.cur_step_num == self._die_after:
            raise KilledError


def run(
    make: Callable[[], tuple[Model, Any]],
    *,
    die_after: int | None = None,
    directory: Path | None = None,
    resume: Path | None = None,
    more: tuple[Callback, ...] = (),
    format: str = "ckpt",
) -> tuple[dict[int, float], dict[str, Tensor]]:
    seed(99 if resume else 11)  # a resumed process starts with other random states
    model, dataset = make()
    recorder = Recorder(die_after)
    listed: list[Callback] = list(more)
    if directory:
        config = CheckpointConfig(keep_checkpoint_max=0, format=format)
        listed.append(ModelCheckpoint("run", directory, config))
    listed.append(recorder)
    if die_after:
        with pytest.raises(KilledError):
            model.train(EPOCHS, dataset, listed, resume=resume)
    else:
        model.train(EPOCHS, dataset, listed, resume=resume)
    return recorder.losses, {k: v.clone() for k, v in model.network.state_dict().items()}


def assert_same_weights(left: dict[str, Tensor], right: dict[str, Tensor]) -> None:
    assert left.keys() == right.keys()
    for name, value in left.items():
        assert torch.equal(value, right[name]), name


def shuffled() -> DataLoader[Any]:
    return loader(shuffle=True)


def with_own_generator() -> DataLoader[Any]:
    return loader(shuffle=True, generator=torch.Generator().manual_seed(5))


def with_replacement() -> DataLoader[Any]:
    dataset = TensorDataset(*data())
    sampler = RandomSampler(dataset, replacement=True, num_samples=36)
    return DataLoader(dataset, batch_size=8, sampler=sampler)


class Augmented(Dataset[tuple[Tensor, Tensor]]):
    """Draws from all three global generators for every item, as augmentations do."""

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        x, y = data()
        noise = random.random() + float(np.random.rand()) + torch.rand(4)
        return x[index] + 0.1 * noise, y[index]


def augmented() -> DataLoader[Any]:
    return DataLoader(Augmented(), batch_size=8, shuffle=True)


DATASETS = [shuffled, with_own_generator, with_replacement, augmented]


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
def test_the_learning_rate_schedule_goes_on_where_it_was(every: str, tmp_path: Path) -> None:
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


def test_a_finished_run_goes_on_with_the_next_epoch(tmp_path: Path) -> None:
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


def test_a_death_after_the_last_step_of_an_epoch_still_ends_that_epoch(tmp_path: Path) -> None:
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


def stop_after(step: int) -> Callback:
    def look(context: RunContext) -> None:
        if context.original_args().cur_step_num == step:
            context.request_stop()

    return LambdaCallback(on_train_step_end=look)


@pytest.mark.parametrize("every", ["step", "epoch"])
@pytest.mark.parametrize("stop", [2, 4, 7])
def test_a_run_that_a_callback_stopped_goes_on_in_that_epoch_bit_for_bit(
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
def test_a_run_goes_on_from_the_best_checkpoint_with_the_next_epoch(
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


def test_a_generator_is_passed_over_to_where_the_run_stopped(tmp_path: Path) -> None:
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


def test_a_dataset_with_a_state_is_asked_and_nothing_is_read_twice(tmp_path: Path) -> None:
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


def test_resuming_with_fewer_batches_says_so(tmp_path: Path) -> None:
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
