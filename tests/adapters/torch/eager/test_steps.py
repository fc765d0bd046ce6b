"""What counts as a step, and what an idle step costs."""

from __future__ import annotations

import copy
import threading
from functools import partial
from typing import Any

import pytest
import torch
from tests.adapters.torch.fitting import batch, fit, mlp
from tests.adapters.torch.watching import same, watch
from torch import nn
from torch.nn import functional
from torch.nn.modules import module as module_hooks
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack
from torch.utils.flop_counter import FlopCounterMode


def train(steps: int, net: nn.Module | None = None) -> list[Any]:
    net = net or mlp()
    return fit(net, torch.optim.SGD(net.parameters(), lr=0.1), batch, steps=steps)


def hooks() -> int:
    return len(module_hooks._global_forward_hooks) + len(module_hooks._global_forward_pre_hooks)


def test_steps_are_numbered_from_zero_and_end_with_the_optimizers() -> None:
    with watch() as seen:
        train(3)
    assert seen.complete == {0: True, 1: True, 2: True}
    last = [seen.graph(step).ops[-1].name for step in range(3)]
    assert (
        last == ["Default/optimizer-SGD/_foreach_add_-op0"] * 3
        or last == ["Default/optimizer-SGD/add_-op3"] * 3
    )


def test_the_first_number_can_be_another() -> None:
    with watch(initial_step=7, steps="8") as seen:
        train(3)
    assert list(seen.steps) == [8]


@pytest.mark.parametrize(
    ("text", "wanted"), [("0|2-3", [0, 2, 3]), ("4", [4]), ("all", [0, 1, 2, 3, 4]), ("9", [])]
)
def test_only_the_wanted_steps_are_observed(text: str, wanted: list[int]) -> None:
    with watch(steps=text) as seen:
        train(5)
    assert list(seen.steps) == wanted


def test_every_optimizer_of_several_ends_a_step() -> None:
    one, two = nn.Linear(2, 2), nn.Linear(2, 2)
    first = torch.optim.SGD(one.parameters(), lr=0.1)
    second = torch.optim.Adam(two.parameters())
    with watch() as seen:
        for _ in range(2):
            two(one(torch.ones(1, 2))).sum().backward()
            first.step()
            second.step()
    assert list(seen.steps) == [0, 1, 2, 3]
    assert {node.scope for node in seen.graph(1).ops} == {"Default/optimizer-Adam"}


def test_accumulation_is_one_step_until_the_optimizer_steps() -> None:
    net = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with watch() as seen:
        for _ in range(3):
            net(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    assert list(seen.steps) == [0]
    assert sum("addmm" in name for name in seen.names()) == 3


def test_the_evaluations_of_a_closure_belong_to_one_step() -> None:
    net = nn.Linear(2, 1)
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=3, lr=0.01)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = net(torch.ones(1, 2)).square().sum()
        loss.backward()
        return loss

    with watch() as seen:
        optimizer.step(closure)
        optimizer.step(closure)
    assert list(seen.steps) == [0, 1]
    names = seen.names()
    assert sum(name == "Default/network-Linear/addmm-op1" for name in names) == 1
    assert any(name.startswith("Default/optimizer-LBFGS/") for name in names)


class Wrapping(torch.optim.SGD):
    """Gives its closure to an optimizer inside."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, lr=0.1)
        self.inner = torch.optim.SGD(self.param_groups, lr=0.1)

    def step(self, closure: Any = None) -> Any:
        return self.inner.step(closure)


@pytest.mark.parametrize("is_wrapped", [False, True])
@pytest.mark.parametrize("form", ["function", "partial", "object", "decorated"])
def test_the_ops_of_a_closure_are_not_those_of_the_optimizer(form: str, is_wrapped: bool) -> None:
    net = nn.Linear(2, 1)
    kind = Wrapping if is_wrapped else partial(torch.optim.SGD, lr=0.1)
    optimizer = kind(net.parameters())

    def evaluate() -> torch.Tensor:
        loss = net(torch.ones(1, 2)).square().sum()
        loss.backward()
        return loss

    class Closure:
        def __call__(self) -> torch.Tensor:
            with torch.enable_grad():
                return evaluate()

    closures = {
        "function": evaluate,
        "partial": partial(evaluate),
        "object": Closure(),
        "decorated": torch.enable_grad()(evaluate),
    }
    with watch() as seen:
        for _ in range(2):
            optimizer.step(closures[form])
    nodes = [node for step in (0, 1) for node in seen.graph(step).ops]
    assert {node.phase for node in nodes if "optimizer" in node.scope} == {"optimizer"}
    found = {node.name: node.phase for node in nodes}
    assert found["Default/pow-op0"] == "forward"
    assert found["Gradients/Default/ones_like-op0"] == "backward"
    assert found["Gradients/Default/network-Linear/mm-op0"] == "backward"


def test_a_wrapping_optimizer_counts_once() -> None:
    class Wrapper(torch.optim.Optimizer):
        def __init__(self, inner: torch.optim.Optimizer) -> None:
            super().__init__(inner.param_groups, {})
            self.inner = inner

        def step(self, closure: Any = None) -> None:
            self.inner.step()

    net = nn.Linear(2, 1)
    optimizer = Wrapper(torch.optim.SGD(net.parameters(), lr=0.1))
    with watch() as seen:
        for _ in range(2):
            net(torch.ones(1, 2)).sum().backward()
            optimizer.step()
    assert list(seen.steps) == [0, 1]


def test_a_step_that_the_scaler_skips_is_a_step() -> None:
    net = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    original = torch.amp.GradScaler.step
    with watch() as seen:
        for value in (1.0, float("inf"), 1.0):
            optimizer.zero_grad()
            scaler.scale(net(torch.full((1, 2), value)).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
    assert torch.amp.GradScaler.step is original
    assert list(seen.steps) == [0, 1, 2]
    assert not any("optimizer" in name for name in seen.names(1))
    assert any("optimizer" in name for name in seen.names(2))


def test_with_manual_steps_optimizers_do_not_count() -> None:
    with watch(step_by="manual") as seen:
        train(2)
        seen.adapter.end_step()
        train(1)
        seen.adapter.end_step()
    assert list(seen.steps) == [0, 1]


def test_ops_after_the_last_step_are_a_step_only_if_a_network_ran() -> None:
    net = mlp()
    with watch() as seen:
        losses = train(2, net)
        _ = torch.ones(1).item()
    assert list(seen.steps) == [0, 1]
    assert losses
    with watch() as seen:
        train(2, net)
        net.eval()(torch.ones(1, 4))
    assert seen.complete == {0: True, 1: True, 2: False}


def test_a_program_without_an_optimizer_is_one_step() -> None:
    with watch(starts_at_once=False) as seen:
        mlp()(torch.ones(1, 4))
    assert seen.complete == {0: False}


def test_preparations_of_a_script_belong_to_no_step() -> None:
    with watch(starts_at_once=False) as seen:
        data = torch.randn(6, 4)
        data = data / data.std()
        net = mlp()
        net(data)
    assert {node.scope.split("/")[1] for node in seen.graph().ops} == {"network-Sequential"}


def test_copying_a_module_belongs_to_no_step_and_its_weights_keep_their_names() -> None:
    with watch(starts_at_once=False) as seen:
        net = copy.deepcopy(mlp())
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.mul_(0.9)
        net(torch.ones(1, 4))
    assert {node.scope.split("/")[1] for node in seen.graph().ops} == {"network-Sequential"}
    leaves = {node.name for node in seen.graph() if node.kind == "parameter"}
    assert {"0.weight", "0.bias"} <= leaves


def test_idle_steps_have_no_mode_and_no_module_hooks() -> None:
    found: list[tuple[int, int]] = []
    numpy = torch.Tensor.numpy

    class Probe(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found.append((len(_get_current_dispatch_mode_stack()), hooks()))
            return x

    with watch(steps="1|3"):
        train(5, nn.Sequential(mlp(), Probe()))
        assert torch.Tensor.numpy is numpy
    assert found == [(0, 0), (1, 2), (0, 0), (1, 2), (0, 0)]
    assert hooks() == 0
    assert torch.Tensor.numpy is numpy


def test_everything_is_uninstalled_at_the_end_also_after_an_exception() -> None:
    numpy, resize = torch.Tensor.numpy, torch.UntypedStorage.resize_

    def fail() -> None:
        with watch() as seen:
            sinks.append(seen)
            train(1)
            _ = 1 / 0

    sinks: list[Any] = []
    with pytest.raises(ZeroDivisionError):
        fail()
    assert hooks() == 0
    assert _get_current_dispatch_mode_stack() == []
    assert torch.Tensor.numpy is numpy
    assert torch.UntypedStorage.resize_ is resize
    assert sinks[0].closed == 1


class Counting(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("steps", ["all", "1", "0|2"])
def test_modes_of_the_program_work_round_and_inside_the_loop(steps: str) -> None:
    def run() -> list[Any]:
        torch.manual_seed(0)
        results: list[Any] = []
        net = mlp()
        with Counting() as counting:
            results.append(train(2, net))
            with FlopCounterMode(display=False) as flops:
                results.append(train(2, net))
            results.append(train(1, net))
        results.append(flops.get_total_flops())
        results.append(counting.count > 100)
        return results

    bare = run()
    with watch(steps=steps) as seen:
        watched = run()
    assert seen.reports == []
    assert same(bare, watched)
    with watch(steps="all") as seen, Counting():
        train(1)
    assert "Default/network-Sequential/0-Linear/addmm-op0" in seen.names()


def test_training_in_another_thread_is_not_observed_and_reported_once() -> None:
    def elsewhere(results: list[Any]) -> None:
        torch.manual_seed(0)
        results.append(train(2))

    bare: list[Any] = []
    watched: list[Any] = []
    elsewhere(bare)
    net = mlp()
    with watch() as seen:
        thread = threading.Thread(target=elsewhere, args=(watched,), name="actor")
        thread.start()
        thread.join()
        net(torch.ones(1, 4))
    assert same(bare, watched)
    assert seen.complete == {0: False}
    assert [line for line in seen.reports if "actor" in line] == seen.reports
    assert len(seen.reports) == 1
    assert all("network-Sequential/" in name for name in seen.names()[1:])


def test_modules_that_run_in_other_threads_do_not_disturb_names() -> None:
    net, other = mlp(), mlp()
    go, stop = threading.Event(), threading.Event()

    def run() -> None:
        go.wait()
        while not stop.is_set():
            other(torch.ones(1, 4))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        with watch() as seen:
            go.set()
            for _ in range(30):
                net(torch.ones(1, 4))
    finally:
        stop.set()
        go.set()
        thread.join()
    assert {node.scope for node in seen.graph().ops} <= {
        "Default",
        "Default/network-Sequential/0-Linear",
        "Default/network-Sequential/1-ReLU",
        "Default/network-Sequential/2-Linear",
    }


def test_steps_with_an_observed_evaluation_have_a_second_graph_that_is_recognised_again() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with watch(observe=("evaluation",)) as seen:
        for number in range(6):
            x, y = batch()
            optimizer.zero_grad()
            functional.mse_loss(net.train()(x), y).backward()
            if number % 2:
                with torch.no_grad():
                    net.eval()(x)
            optimizer.step()
    assert [seen.graph(step).id for step in range(6)] == [0, 1, 0, 1, 0, 1]


def test_control_flow_makes_graphs_and_a_short_batch_does_not() -> None:
    net = mlp()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with watch() as seen:
        for size, deep in ((4, False), (4, True), (4, False), (3, True), (1, False)):
            x = torch.ones(size, 4)
            optimizer.zero_grad()
            loss = net(x).sum()
            if deep:
                loss = loss * 2
            loss.backward()
            optimizer.step()
    assert [seen.graph(step).id for step in range(5)] == [0, 1, 0, 1, 0]


def test_a_structure_met_first_with_a_short_batch_is_the_same_structure() -> None:
    net = mlp()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with watch() as seen:
        for size, deep in ((4, False), (3, True), (4, True), (4, False)):
            x = torch.ones(size, 4)
            optimizer.zero_grad()
            loss = net(x).sum()
            if deep:
                loss = (loss * 2).view(-1).sum()
            loss.backward()
            optimizer.step()
    assert [seen.graph(step).id for step in range(4)] == [0, 1, 1, 0]
