"""The ways to build a `Model` in "Debugging and Tuning": with a loss function, with a network that
computes its loss, and with a network that is a whole training step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.train.nets import classifier, loader
from torch import nn

from sonde.train import Callback, History, LossMonitor, Model, ModelCheckpoint
from sonde.train.loss_scale import FixedLossScaleManager, FixedLossScaleUpdateCell
from sonde.train.one_step import TrainOneStepWithLossScaleCell, WithLossCell


def test_the_self_packaged_training_step_of_the_tuning_document(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class TrainNet(nn.Module):
        """A network that is a whole training step and gives loss, overflow and scale."""

        def __init__(self, network: nn.Module) -> None:
            super().__init__()
            self.network = network
            self.optimizer = torch.optim.SGD(network.parameters(), 0.01)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[Any, ...]:
            self.optimizer.zero_grad()
            loss = nn.functional.mse_loss(self.network(x), y)
            loss.backward()
            self.optimizer.step()
            return loss, False, 1.0

    def get_data(num: int, w: float = 2.0, b: float = 3.0) -> Any:
        generator = np.random.default_rng(0)
        for _ in range(num):
            x = generator.uniform(-10.0, 10.0, (16, 1))
            y = x * w + b + generator.normal(0, 1, (16, 1))
            yield x.astype(np.float32), y.astype(np.float32)

    train_net = TrainNet(nn.Linear(1, 1))
    model = Model(network=train_net)

    class Print(Callback):
        def step_end(self, run_context: Any) -> None:
            cb_params = run_context.original_args()
            loss, overflow, scale = cb_params.net_outputs
            step = cb_params.cur_step_num - 1
            print(f"step: {step}, loss: {loss}, overflow:{overflow}, scale:{scale}")

    model.train(1, list(get_data(100)), callbacks=Print())
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 100
    assert lines[0].startswith("step: 0, loss: ")
    assert lines[0].endswith(", overflow:False, scale:1.0")
    assert float(lines[-1].split()[3].rstrip(",")) < 5 < float(lines[0].split()[3].rstrip(","))


@pytest.mark.document(
    188,
    says="ms.Model(network=..., loss_fn=loss, optimizer=opt, "
    "loss_scale_manager=loss_scale_manager)",
    how="`sonde.train.Model`, the same arguments",
)
@pytest.mark.document(
    190,
    says="self-packaged forward network and loss function: nn.WithLossCell(msnet, loss)",
    how="`sonde.train.WithLossCell`; `Model(network=net_with_loss, optimizer=opt)`",
)
@pytest.mark.document(
    194,
    says="self-packaged training process: ms.Model(network=train_net)",
    how="the same with `sonde.train.Model`",
)
@pytest.mark.parametrize("way", ["general", "with loss", "whole step"])
def test_the_three_ways_to_a_model_of_the_tuning_document_learn_the_same(
    way: str, tmp_path: Path
) -> None:
    net = classifier()
    opt = torch.optim.Adam(net.parameters(), lr=0.01)
    loss = nn.CrossEntropyLoss()
    net_with_loss = WithLossCell(net, loss)
    if way == "general":
        manager = FixedLossScaleManager(drop_overflow_update=False)
        model = Model(network=net, loss_fn=loss, optimizer=opt, loss_scale_manager=manager)
    elif way == "with loss":
        model = Model(network=net_with_loss, optimizer=opt)
    else:
        scale_sense = FixedLossScaleUpdateCell(1)
        model = Model(TrainOneStepWithLossScaleCell(net_with_loss, opt, scale_sense=scale_sense))
    history = History()
    model.train(2, loader(), [history, ModelCheckpoint("net", tmp_path), LossMonitor(0)])

    plain = classifier()
    optimizer = torch.optim.Adam(plain.parameters(), lr=0.01)
    for x, y in [*loader(), *loader()]:
        optimizer.zero_grad()
        loss(plain(x), y).backward()
        optimizer.step()
    # A power of two as scale changes no bit of a float32 gradient.
    for mine, theirs in zip(net.parameters(), plain.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    assert len(list(tmp_path.iterdir())) == 5
