"""Trainings that do odd but allowed things; each returns what must be equal with and without
Sonde."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import sys
import threading
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from tests.adapters.torch.fitting import Trainings, batch, mlp, weights
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations

TRAININGS = Trainings()


def _sgd(net: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)


def _step(net: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    given, wanted = batch()
    functional.mse_loss(net(given), wanted).backward()
    optimizer.step()
    optimizer.zero_grad()


@TRAININGS.add
def hooks_that_raise() -> Any:
    net = mlp()
    optimizer = _sgd(net)
    caught = []

    def hook(*_: Any) -> None:
        raise KeyError("hook")

    for register in (
        net[0].register_forward_hook,
        net[2].register_forward_pre_hook,
        net[2].weight.register_hook,
        net[2].register_full_backward_hook,
    ):
        handle = register(hook)
        try:
            _step(net, optimizer)
        except KeyError as error:
            caught.append(str(error))
        handle.remove()
        optimizer.zero_grad()
        _step(net, optimizer)
    return caught, weights(net)


@TRAININGS.add
def generator_inside_no_grad() -> Any:
    net = mlp()
    optimizer = _sgd(net)

    def evaluations() -> Iterator[torch.Tensor]:
        with torch.no_grad():
            while True:
                yield net(batch()[0])

    found = []
    suspended = evaluations()
    for _ in range(3):
        found.append(next(suspended).clone())
        with torch.enable_grad():
            _step(net, optimizer)
        found.append(torch.tensor(torch.is_grad_enabled()))
    suspended.close()
    torch.set_grad_enabled(True)
    return found, weights(net)


@TRAININGS.add
def copies_and_pickles() -> Any:
    net = mlp()
    optimizer = _sgd(net)
    for _ in range(3):
        _step(net, optimizer)
        twin = copy.deepcopy(net)
        twin_optimizer = _sgd(twin)
        twin_optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        _step(twin, twin_optimizer)
        again = pickle.loads(pickle.dumps(list(twin.parameters())))
        with torch.no_grad():
            for mine, other in zip(net.parameters(), again, strict=True):
                mine.copy_(other)
    return weights(net, twin)


@TRAININGS.add
def collecting_hooks_and_weak_references() -> Any:
    net = mlp()
    optimizer = _sgd(net)
    references = [weakref.ref(each) for each in net.parameters()]

    def collect(*_: Any) -> None:
        gc.collect()

    net[0].register_forward_hook(collect)
    net[2].weight.register_post_accumulate_grad_hook(collect)
    for _ in range(3):
        _step(net, optimizer)
    alive = [each() is not None for each in references]
    kept = weights(net)
    del net, optimizer
    gc.collect()
    return kept, alive


@TRAININGS.add
def tracers_and_profilers() -> Any:
    net = mlp()
    optimizer = _sgd(net)
    calls = 0

    def trace(frame: Any, event: str, argument: Any) -> Any:
        nonlocal calls
        calls += 1
        return trace

    before = sys.gettrace(), sys.getprofile()
    for install in (sys.settrace, sys.setprofile):
        install(trace)
        try:
            _step(net, optimizer)
        finally:
            install(None)
    sys.settrace(before[0])
    sys.setprofile(before[1])
    _step(net, optimizer)
    return calls > 0, weights(net)


@TRAININGS.add
def a_fork_inside_a_step() -> Any:
    net = mlp()
    optimizer = _sgd(net)
    codes = []
    for _ in range(3):
        given, wanted = batch()
        loss = functional.mse_loss(net(given), wanted)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            child = os.fork()
        if child == 0:
            ended = 1
            try:
                with torch.no_grad():
                    ended = int(net(given).shape != (5, 2))
            finally:
                os._exit(ended)
        codes.append(os.waitpid(child, 0)[1])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return codes, weights(net)


@TRAININGS.add
def transforms_of_functions() -> Any:
    net = nn.Linear(4, 2)
    optimizer = _sgd(net)
    found = []
    for _ in range(3):
        given, wanted = batch()
        values = {name: each.detach() for name, each in net.named_parameters()}

        def loss(values: Any, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
            return functional.mse_loss(torch.func.functional_call(net, values, (one,)), other)

        each = torch.func.vmap(torch.func.grad(loss), (None, 0, 0))(values, given, wanted)
        found += [value.clone() for value in each.values()]
        found.append(torch.func.jvp(net, (given,), (torch.ones_like(given),))[1].detach())
        _step(net, optimizer)
    return found, weights(net)


class _Counting(torch.autograd.Function):
    calls: list[str] = []  # noqa: RUF012

    @staticmethod
    def forward(ctx: Any, given: torch.Tensor) -> torch.Tensor:
        _Counting.calls.append("forward")
        ctx.mark_dirty(given)
        return given.mul_(2)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        _Counting.calls.append("backward")
        return gradients[0] * 2


@TRAININGS.add
def functions_with_effects() -> Any:
    net = mlp()
    optimizer = _sgd(net)
    _Counting.calls = []
    net[0].register_forward_hook(lambda _, __, result: _Counting.apply(result * 1))
    for _ in range(3):
        _step(net, optimizer)
    return _Counting.calls, weights(net)


@TRAININGS.add
def tied_and_parametrized_weights_and_new_buffers() -> Any:
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2))
    net[1].weight = net[0].weight
    parametrizations.weight_norm(net[2])
    net.register_buffer("mean", torch.zeros(2))
    optimizer = _sgd(net)
    for _ in range(3):
        _step(net, optimizer)
        net.mean = net(batch()[0]).mean(0).detach()
    return weights(net)


@TRAININGS.add
def closures_that_raise_and_swapped_optimizers() -> Any:
    net = mlp()
    caught = []

    def closure() -> torch.Tensor:
        raise ArithmeticError("closure")

    for make in (torch.optim.SGD, torch.optim.Adam, torch.optim.LBFGS, torch.optim.RMSprop):
        optimizer: Any = make(net.parameters(), lr=0.01)
        try:
            optimizer.step(closure)
        except ArithmeticError as error:
            caught.append(str(error))

        def work(optimizer: Any = optimizer) -> torch.Tensor:
            optimizer.zero_grad()
            loss = net(torch.ones(2, 4)).square().sum()
            loss.backward()
            return loss  # type: ignore[no-any-return]

        optimizer.step(work)
    return caught, weights(net)


@TRAININGS.add
def changing_dtypes() -> Any:
    net = mlp()
    for dtype in (torch.float64, torch.bfloat16, torch.float32):
        net = net.to(dtype)
        optimizer = _sgd(net)
        for _ in range(2):
            net(torch.ones(3, 4, dtype=dtype)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    return weights(net)


@TRAININGS.add
def warnings_as_errors() -> Any:
    net = mlp()
    optimizer = _sgd(net)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            _step(net, optimizer)
    return weights(net)


@TRAININGS.add
def threads_beside_the_training() -> Any:
    net = mlp()
    optimizer = _sgd(net)
    fixed = copy.deepcopy(net).eval()
    results: list[torch.Tensor] = []

    def evaluate() -> None:
        with torch.no_grad():
            results.extend(fixed(torch.ones(2, 4)).clone() for _ in range(20))

    workers = [threading.Thread(target=evaluate) for _ in range(2)]
    for worker in workers:
        worker.start()
    for _ in range(3):
        _step(net, optimizer)
    for worker in workers:
        worker.join()
    return results, weights(net)


@TRAININGS.add
def an_exit_inside_a_hook() -> Any:
    net = mlp()
    optimizer = _sgd(net)
    _step(net, optimizer)

    def leave(*_: Any) -> None:
        sys.exit(7)

    net[2].register_forward_hook(leave)
    code: Any = None
    try:
        _step(net, optimizer)
    except SystemExit as error:
        code = error.code
    return code, weights(net)
