"""Planted faults are named with op, scope, line and the rows of the batch."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from tests.adapters.torch.fitting import batch, mlp
from tests.adapters.torch.replay.recording import Recorded, recording
from torch import nn
from torch.nn import functional

from sonde.adapters.torch.replay.kept_tensor import KeptTensor, map_tree
from sonde.adapters.torch.replay.optimizer_step import find_bad_update
from sonde.adapters.torch.replay.recorder import StepRecorder
from sonde.adapters.torch.replay.run_again import Replayed, is_non_finite, run_again
from sonde.adapters.torch.replay.step_record import BackwardPass, ModuleCall, StepRecord


def replays(train: Callable[[], Any], **options: Any) -> list[Replayed]:
    """The replay of each step of ``train``."""
    found: list[Replayed] = []

    def again(record: StepRecord, recorder: StepRecorder, recorded: Recorded) -> None:
        found.append(run_again(record, recorder=recorder, **options))

    torch.manual_seed(0)
    with recording(again) as recorded:
        train()
    assert recorded.errors == []
    return found


def code(found: Replayed) -> str:
    assert found.origin is not None
    assert found.origin.source is not None
    return found.origin.source.code


class Normalising(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.drop, self.b = nn.Linear(4, 8), nn.Dropout(0.2), nn.Linear(8, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.tanh(self.a(self.drop(x)))
        h = h / x.abs().sum(1, keepdim=True)
        return self.b(h)


class TrainingStep(nn.Module):
    """Like a module of Lightning under DDP, which is called through its ``training_step``."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def training_step(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layer(x)
        return (y - 9).log().mean()

    def redirected(self, x: torch.Tensor) -> torch.Tensor:
        def wrapped_forward(x: torch.Tensor) -> torch.Tensor:
            del vars(self)["forward"]
            return self.training_step(x)

        wrapped_forward.__module__ = "lightning.pytorch.strategies.strategy"
        self.forward = wrapped_forward  # type: ignore[method-assign]
        loss: torch.Tensor = self(x)
        return loss


def test_a_method_that_runs_in_place_of_forward_is_executed_again() -> None:
    def train() -> None:
        net = TrainingStep()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        net.redirected(torch.randn(8, 4)).backward()
        optimizer.step()

    (found,) = replays(train)
    assert found.is_exact
    assert code(found) == "return (y - 9).log().mean()"


def test_an_op_of_the_forward_pass_is_named_with_its_row() -> None:
    def train() -> None:
        net = Normalising()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for number in range(2):
            x = torch.randn(256, 4)
            if number == 1:
                x[77] = 0
            functional.mse_loss(net(x), torch.randn(256, 2)).backward()
            optimizer.step()
            optimizer.zero_grad()

    healthy, found = replays(train)
    assert healthy.is_exact
    assert healthy.origin is None
    assert healthy.rows is None
    assert found.is_exact
    assert found.observed is not None
    assert found.observed.is_exact
    assert found.origin is not None
    assert code(found) == "h = h / x.abs().sum(1, keepdim=True)"
    assert found.origin.op == "Default/network-Normalising/div-op0"
    assert found.origin.evidence["phase"] == "forward"
    assert found.rows is not None
    assert (found.rows.rows, found.rows.size, found.rows.is_direct) == ((77,), 256, True)


def select(record: StepRecord, rows: Sequence[int]) -> StepRecord:
    """The record of some rows of the tensors that the step was given."""

    def of(kept: KeptTensor) -> KeptTensor:
        is_given = not kept.requires_grad and kept.values.dim() and kept.values.shape[0] == 16
        return dataclasses.replace(kept, copy=kept.values[list(rows)]) if is_given else kept

    events: list[Any] = []
    for event in record.events:
        if isinstance(event, BackwardPass):
            events.append(event)
        else:
            args = map_tree(event.args, KeptTensor, of)
            events.append(dataclasses.replace(event, args=args))
    return dataclasses.replace(record, events=events)


def test_rows_are_confirmed_by_executing_them_alone() -> None:
    def train() -> None:
        net = Normalising()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        x = torch.randn(16, 4)
        x[[3, 9]] = 0
        functional.mse_loss(net(x), torch.randn(16, 2)).backward()
        optimizer.step()

    (found,) = replays(train, select_rows=select)
    assert found.rows is not None
    assert (found.rows.rows, found.rows.is_confirmed) == ((3, 9), True)


def test_the_gradient_of_a_loss_outside_of_modules_is_named() -> None:
    def train() -> None:
        net = nn.Linear(4, 2)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        x = torch.randn(16, 4)
        y = torch.randn(16, 2)
        y = torch.where(torch.arange(16)[:, None] == 7, net(x).detach(), y)
        distance = (net(x) - y).square().sum(1).sqrt()
        distance.mean().backward()
        optimizer.step()

    (found,) = replays(train)
    assert found.is_exact
    assert code(found) == "distance = (net(x) - y).square().sum(1).sqrt()"
    assert found.origin is not None
    assert found.origin.evidence["phase"] == "backward"
    assert found.rows is not None
    assert found.rows.rows == (7,)


def test_a_loss_outside_of_modules_is_named() -> None:
    def train() -> None:
        net = nn.Sequential(nn.Linear(4, 2), nn.ReLU())
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        x = torch.randn(6, 4)
        likelihood = torch.log(net(x))
        (-likelihood.mean()).backward()
        optimizer.step()

    (found,) = replays(train)
    assert found.is_exact
    assert code(found) == "likelihood = torch.log(net(x))"
    assert found.origin is not None
    assert found.origin.evidence["type"] == "log"


def test_the_micro_batch_and_the_argument_with_nan_are_named() -> None:
    def train() -> None:
        net, criterion = Normalising(), nn.MSELoss()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for number in range(4):
            x, y = torch.randn(8, 4), torch.randn(8, 2)
            if number == 2:
                x[3, 1] = float("nan")
            (criterion(net(x), y) / 4).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()

    (found,) = replays(train)
    assert found.is_exact
    assert found.micro_batch == 2
    assert found.rows is not None
    assert found.rows.rows == (3,)
    assert found.origin is not None
    evidence = found.origin.evidence
    assert (evidence["kind"], evidence["input"]) == ("leaf", "x")
    assert (evidence["micro_batch"], evidence["micro_batches"]) == (2, 4)


def test_an_overflow_of_half_precision_is_named() -> None:
    def train() -> None:
        net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        x, y = torch.randn(8, 4), torch.randn(8, 2)
        x[2] *= 3e5
        with torch.autocast("cpu", torch.float16):
            loss = functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()

    (found,) = replays(train)
    assert found.is_exact
    assert found.origin is not None
    assert found.rows is not None
    assert found.origin.evidence["type"] == "_to_copy"
    assert found.rows.rows == (2,)


def test_weights_that_are_nan_already_are_named_and_have_no_rows() -> None:
    def train() -> None:
        net = nn.Linear(4, 8)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        with torch.no_grad():
            net.weight[3, 1] = float("nan")
        net(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()

    (found,) = replays(train)
    assert found.is_exact
    assert found.origin is not None
    assert found.origin.parameter == "weight"
    assert found.origin.evidence["kind"] == "leaf"
    assert found.rows is None


def test_an_overflow_in_the_gradient_of_a_weight_has_no_rows() -> None:
    """The weight has as many rows as the batch."""

    def train() -> None:
        net = nn.Linear(2, 8, bias=False)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        nn.init.zeros_(net.weight)
        (net(torch.full((8, 2), 1e38)) * 10).sum().backward()
        optimizer.step()

    (found,) = replays(train)
    assert found.origin is not None
    assert found.origin.evidence["phase"] == "backward"
    assert found.rows is None


class Unsteady(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.a(x)
        h = h * float.fromhex(f"0x1.{os.urandom(4).hex()}p0")
        return self.b(h)


def test_a_step_that_is_not_deterministic_is_said_with_the_op_and_by_how_much() -> None:
    def train() -> None:
        net = Unsteady()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        x, y = batch()
        functional.mse_loss(net(x), y).backward()
        optimizer.step()

    (found,) = replays(train)
    assert not found.is_exact
    assert found.plain.differences[0].quantity == "output"
    assert 0 < found.plain.differences[0].largest < 10
    op = found.first_differing_op
    assert op is not None
    assert op.source is not None
    assert op.type == "mul"
    assert op.source.code.startswith("h = h * float.fromhex")


def test_an_exception_is_raised_again_at_the_same_op() -> None:
    found: list[Replayed] = []
    torch.manual_seed(0)
    with recording(lambda *_: None) as recorded:
        net = mlp()
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            net(torch.randn(5, 3))
        recorder = recorded.recorder
        assert recorder is not None
        found.append(run_again(recorder.take(0), recorder=recorder))
        with pytest.raises(ValueError, match="batch_size"):
            functional.cross_entropy(net(torch.randn(5, 4)), torch.zeros(4).long())
        found.append(run_again(recorder.take(0), recorder=recorder))
    assert recorded.errors == []
    first, second = found
    assert first.is_exact
    assert second.is_exact
    assert first.failed_op is not None
    assert first.failed_op.type == "addmm"
    assert first.failed_op.scope == "Default/network-Sequential/0-Linear"
    assert isinstance(second.plain.error, ValueError)


def test_the_optimizer_is_named_if_it_spoils_the_weights() -> None:
    net = nn.Linear(3, 3)
    names = {id(each): name for name, each in net.named_parameters()}
    optimizer = torch.optim.SGD(net.parameters(), lr=1e38)
    (net(torch.ones(2, 3)).sum() * 100).backward()
    assert find_bad_update(optimizer, names) is None
    optimizer.step()
    found = find_bad_update(optimizer, names, rank=1)
    assert found is not None
    assert (found.parameter, found.evidence["optimizer"], found.rank) == ("weight", "SGD", 1)
    settings: Any = found.evidence["settings"]
    assert settings["lr"] == 1e38
    assert found.evidence["non_finite"] == 9


def test_a_fault_of_the_compiler_only_is_said() -> None:
    def spoil(graph: Any, inputs: Any) -> Any:
        return lambda *args: tuple(each * float("inf") for each in graph.forward(*args))

    def train() -> None:
        torch._dynamo.reset()
        net = mlp()
        compiled = torch.compile(net, backend=spoil)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        x, y = batch()
        functional.mse_loss(compiled(x), y).backward()
        optimizer.step()

    (found,) = replays(train)
    assert found.is_exact
    assert found.is_of_compiler
    assert found.origin is None
    assert found.observed is not None
    assert not is_non_finite(found.observed)
    torch._dynamo.reset()


def test_calls_carry_the_line_that_made_them() -> None:
    lines: list[Any] = []

    def note(record: StepRecord, *_: Any) -> None:
        lines.extend((type(each), each.line) for each in record.events if hasattr(each, "line"))

    with recording(note):
        net = mlp()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        net(batch()[0]).sum().backward()
        optimizer.step()
    assert next(kind for kind, _ in lines) is ModuleCall
    assert {line[0].co_filename for _, line in lines} == {__file__}
