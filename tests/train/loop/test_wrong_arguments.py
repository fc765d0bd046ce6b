"""A mix-up of arguments is one clear error, where it was made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.train.nets import classifier, loader, sgd
from torch import nn

from sonde.core.errors import SondeError
from sonde.core.files.mindspore_ckpt import CheckpointError
from sonde.train import (
    CheckpointConfig,
    EarlyStopping,
    GradientMonitor,
    LambdaCallback,
    LossMonitor,
    Model,
    ModelCheckpoint,
    OnRequestExit,
    ReduceLROnPlateau,
    SaveBest,
    StopAtTime,
    callbacks,
    check_gradients,
    check_update,
    check_weights,
    save_checkpoint,
)
from sonde.train.one_step import WithLossCell


def model(**changes: Any) -> Model:
    network = classifier()
    parts: dict[str, Any] = {"loss_fn": nn.CrossEntropyLoss(), "optimizer": sgd(network)}
    return Model(network, **{**parts, "metrics": {"accuracy"}, **changes})


FIVE: Any = 5
NONE: Any = None
TEXT: Any = "3"
CLASS: Any = LossMonitor

WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "loss_fn text": (lambda: model(loss_fn="ce"), "Model: loss_fn must be a function or module"),
    "loss_fn class": (lambda: model(loss_fn=nn.MSELoss), "Model: loss_fn must be a function"),
    "optimizer text": (lambda: model(optimizer="sgd"), "an object with zero_grad and step"),
    "optimizer class": (lambda: model(optimizer=torch.optim.SGD), "Model: optimizer must be"),
    "optimizer with a closure": (
        lambda: model(optimizer=torch.optim.LBFGS(classifier().parameters())),
        "optimizer must step without a closure",
    ),
    "no target": (
        lambda: Model(WithLossCell(classifier(), nn.MSELoss()), metrics={"mse"}).eval(
            [(torch.ones(2, 4), torch.ones(2, 2))]
        ),
        "MSE needs a target, and a network that returns its own loss has none",
    ),
    "scheduler": (lambda: model(scheduler=5), "Model: scheduler must be an object with step"),
    "loss scale": (lambda: model(loss_scale_manager=128.0), "Model: loss_scale_manager must be"),
    "no dataset": (lambda: model().train(1, NONE), "train_dataset must be an iterable of batches"),
    "eval dataset": (lambda: model().eval(FIVE), "valid_dataset must be an iterable of batches"),
    "frequency 0": (lambda: model().fit(1, loader(), loader(), 0), "integer of at least 1"),
    "frequency text": (
        lambda: model().fit(1, loader(), loader(), TEXT),
        "valid_frequency must be an integer",
    ),
    "initial_epoch": (
        lambda: model().train(2, loader(), initial_epoch=2),
        "initial_epoch must be less than epoch, which is 2",
    ),
    "callback class": (
        lambda: model().train(1, loader(), CLASS),
        r"make an object of it, LossMonitor\(\)",
    ),
    "callback number": (lambda: model().train(1, loader(), FIVE), "5 is not a callback"),
    "epochs": (lambda: next(callbacks().epochs(TEXT)), "epochs: count must be an integer"),
    "monitor": (lambda: EarlyStopping(FIVE), "monitor must be str"),
    "min_delta": (lambda: EarlyStopping(min_delta=TEXT), "min_delta must be int or float"),
    "factor": (lambda: ReduceLROnPlateau(factor=TEXT), "factor must be int or float"),
    "run_time": (lambda: StopAtTime(TEXT), "run_time is in minutes"),
    "exit format": (lambda: OnRequestExit(format="h5"), "format must be one of 'ckpt'"),
    "best format": (lambda: SaveBest(format="h5"), "format must be one of 'ckpt'"),
    "hook": (lambda: LambdaCallback(on_train_end=FIVE), "on_train_end must be a function"),
    "keep": (lambda: GradientMonitor(keep=-1), "keep must be an integer of at least 1"),
    "seconds": (lambda: CheckpointConfig(save_checkpoint_seconds=-1), "must be at least 0"),
    "append_info": (lambda: CheckpointConfig(append_info=FIVE), "append_info must be list"),
    "append_info item": (lambda: CheckpointConfig(append_info=[FIVE]), "append_info knows"),
    "config": (lambda: ModelCheckpoint(config=FIVE), "config must be CheckpointConfig"),
    "check_update": (lambda: check_update(FIVE, print), "network must be Module"),
    "check_update step": (lambda: check_update(classifier(), FIVE), "step must be a function"),
    "check_gradients": (lambda: check_gradients(FIVE), "network must be Module"),
    "check_weights": (lambda: check_weights(FIVE), "weights must be a network"),
    "saved object": (lambda: save_checkpoint([FIVE], "x.ckpt"), "save_obj must be a module"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_argument_is_reported_by_name(case: str) -> None:
    call, text = WRONG[case]
    with pytest.raises(SondeError, match=text):
        call()


def test_a_directory_that_cannot_be_created_is_reported_before_the_first_step(
    tmp_path: Path,
) -> None:
    occupied = tmp_path / "file"
    occupied.write_text("not a directory")
    steps: list[int] = []
    counter = LambdaCallback(on_train_step_end=lambda c: steps.append(1))
    with pytest.raises(CheckpointError, match="File exists; give ModelCheckpoint another"):
        model().train(1, loader(), [ModelCheckpoint("run", occupied), counter])
    assert steps == []
    assert occupied.read_text() == "not a directory"
