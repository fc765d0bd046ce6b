"""Runs that die after a step, and what they are built of."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.train.nets import data, loader, sgd
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, RandomSampler, TensorDataset

from sonde.train import (
    Callback,
    CheckpointConfig,
    Model,
    ModelCheckpoint,
    RunContext,
)

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
