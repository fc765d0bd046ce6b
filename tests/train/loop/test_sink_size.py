"""``sink_size``: an epoch of a fixed number of steps, as MindSpore's sink mode counts them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.train.nets import classifier, data, loader, sgd
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from sonde.core.errors import UsageError
from sonde.train import Callback, Model, RunContext


class Batches(Callback):
    """Notes the first input of each step, by epoch."""

    def __init__(self) -> None:
        self.epochs: list[list[float]] = []
        self.batch_num: int | None = None

    def epoch_begin(self, run_context: RunContext) -> None:
        self.epochs.append([])
        self.batch_num = run_context.original_args().batch_num

    def step_end(self, run_context: RunContext) -> None:
        element = run_context.original_args().train_dataset_element
        self.epochs[-1].append(float(element[0][0, 0]))


def trained(dataset: Any, epochs: int, **options: Any) -> Batches:
    network = classifier()
    seen = Batches()
    model = Model(network, nn.CrossEntropyLoss(), sgd(network))
    model.train(epochs, dataset, callbacks=seen, **options)
    return seen


@pytest.mark.document(
    22,
    says="`sink_size` of `model.train`: the steps of an epoch in sink mode",
    how="the same, with `dataset_sink_mode=True`; without it no effect, as in MindSpore",
)
def test_epochs_of_three_steps_continue_in_a_dataset_of_four() -> None:
    first = [float(x[0, 0]) for x, _ in loader()]
    seen = trained(loader(), 3, dataset_sink_mode=True, sink_size=3)
    assert seen.epochs == [first[:3], [*first[3:], *first[:2]], [*first[2:], *first[:1]]]
    assert seen.batch_num == 3


@pytest.mark.document(22)
@pytest.mark.parametrize(
    "options",
    [{"sink_size": 3}, {"dataset_sink_mode": True}, {"dataset_sink_mode": True, "sink_size": -1}],
)
def test_without_sink_mode_or_with_minus_one_an_epoch_is_the_dataset(
    options: dict[str, Any],
) -> None:
    assert trained(loader(), 2, **options).epochs == trained(loader(), 2).epochs


def test_the_arguments_have_mindspore_s_order() -> None:
    network = classifier()
    seen = Batches()
    model = Model(network, nn.CrossEntropyLoss(), sgd(network), metrics={"accuracy"})
    model.train(2, loader(), seen, True, 2, 1)
    assert [len(steps) for steps in seen.epochs] == [2]
    model.fit(2, loader(), loader(), 1, seen, True, False, 2, 1)
    assert [len(steps) for steps in seen.epochs] == [2, 2]


def test_each_pass_over_the_dataset_is_shuffled_anew() -> None:
    samples = TensorDataset(*data())
    sampler: DistributedSampler[Any] = DistributedSampler(samples, 1, 0, seed=3)
    seen = trained(DataLoader(samples, 8, sampler=sampler), 4, dataset_sink_mode=True, sink_size=2)
    one, two = [*seen.epochs[0], *seen.epochs[1]], [*seen.epochs[2], *seen.epochs[3]]
    assert one != two
    sampler.set_epoch(1)
    again = [float(x[0, 0]) for x, _ in DataLoader(samples, 8, sampler=sampler)]
    assert again == two


def test_a_generator_ends_the_training_when_it_is_exhausted() -> None:
    batches = ((torch.ones(2, 4), torch.zeros(2).long()) for _ in range(5))
    with pytest.raises(UsageError, match="gave no batch in epoch 3"):
        trained(batches, 4, dataset_sink_mode=True, sink_size=3)


@pytest.mark.parametrize("size", [0, -2, 1.5, True])
def test_a_size_that_is_no_number_of_steps_is_refused(size: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="sink_size"):
        trained(loader(), 1, sink_size=size)


def test_such_a_run_cannot_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot be resumed.*\[sink-size\]"):
        trained(loader(), 1, dataset_sink_mode=True, sink_size=2, resume=tmp_path)
