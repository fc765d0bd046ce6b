"""A training that is ended from the page: weights are whole, callbacks are called."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.debugger.driving import driven
from tests.debugger.hub import RankConnection, watchpoint
from torch import nn

from sonde.debugger import Terminated
from sonde.train import Callback, CheckpointConfig, Loop, Model, ModelCheckpoint
from sonde.train.checkpoint.checkpoint import load_checkpoint
from sonde.wire.rank import Goodbye

STEPS = 12
ADD = "Default/optimizer-SGD/add_-op0"


class Ends(Callback):
    def __init__(self) -> None:
        self.steps: list[int] = []

    def on_train_end(self, run_context: object) -> None:
        self.steps.append(run_context.original_args().cur_step_num)  # type: ignore[attr-defined]


def data() -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(3)
    return [
        (torch.randn(4, 3, generator=generator), torch.randn(4, 2, generator=generator))
        for _ in range(STEPS)
    ]


def make_net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(3, 2)


def weights_after(steps: int) -> list[torch.Tensor]:
    """Without Sonde."""
    net = make_net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, foreach=False)
    for x, y in data()[:steps]:
        optimizer.zero_grad()
        nn.functional.mse_loss(net(x), y).backward()
        optimizer.step()
    return [parameter.detach() for parameter in net.parameters()]


def end_at_step(rank: RankConnection) -> None:
    rank.paused()
    rank.control("step", steps=3)
    rank.paused()
    rank.control("terminate")


def end_in_forward(rank: RankConnection) -> None:
    rank.paused()
    rank.control("step", steps=3)
    rank.paused()
    rank.control("to", op="Default/network-Linear/addmm-op0")
    rank.paused()
    rank.control("terminate")


def end_in_optimizer(rank: RankConnection) -> None:
    rank.paused()
    rank.control("step", steps=2)
    rank.paused()
    rank.control("to", op=ADD)
    assert rank.paused().op == ADD
    rank.control("terminate")


def end_at_gradients(rank: RankConnection) -> None:
    rank.paused()
    rank.control("step", steps=3)
    rank.paused()
    rank.watch(watchpoint(1, "gradient_too_large", abs_mean_gt=0.0))
    rank.control("continue")
    assert rank.paused().reason == "hit"
    rank.control("terminate")


EVERYWHERE = pytest.mark.parametrize(
    "person", [end_at_step, end_in_forward, end_in_optimizer, end_at_gradients]
)


@EVERYWHERE
def test_callbacks_are_called_and_the_last_complete_step_is_saved(
    person: object, tmp_path: Path
) -> None:
    net, ends = make_net(), Ends()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, foreach=False)
    model = Model(net, nn.MSELoss(), optimizer)
    saving = ModelCheckpoint("net", tmp_path, CheckpointConfig(save_checkpoint_steps=1000))

    def training() -> None:
        with pytest.raises(Terminated):
            model.train(2, data(), callbacks=[ends, saving])

    driven(training, person)  # type: ignore[arg-type]
    assert ends.steps == [3]
    assert [file.name for file in tmp_path.glob("*.ckpt")] == ["net-1_3.ckpt"]
    saved = load_checkpoint(saving.latest_ckpt_file_name)
    for (name, parameter), expected in zip(net.named_parameters(), weights_after(3), strict=True):
        assert torch.equal(parameter, expected)
        assert torch.equal(torch.as_tensor(saved[name]), expected)


@EVERYWHERE
def test_weights_are_never_changed_in_part(person: object) -> None:
    net = make_net()

    def training() -> None:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, foreach=False)
        for x, y in data():
            optimizer.zero_grad()
            nn.functional.mse_loss(net(x), y).backward()
            optimizer.step()

    result, rank = driven(training, person)  # type: ignore[arg-type]
    assert result is None
    assert len(rank.steps) == 3
    for parameter, expected in zip(net.parameters(), weights_after(3), strict=True):
        assert torch.equal(parameter, expected)


def test_a_loop_that_does_not_listen_is_ended_all_the_same() -> None:
    net, done = make_net(), 0

    def training() -> None:
        nonlocal done
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        with Loop(network=net) as loop:
            while True:
                loop.step_begin()
                optimizer.zero_grad()
                net(torch.ones(1, 3)).sum().backward()
                optimizer.step()
                loop.step_end()
                done += 1

    result, rank = driven(training, end_at_step)
    assert result is None
    assert 3 <= done <= 12
    assert rank.all(Goodbye) == [Goodbye(130, "ended from the debugger", is_terminated=True)]
