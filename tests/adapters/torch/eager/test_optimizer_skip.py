"""An optimizer whose ops no consumer wants is not observed from its fourth step on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.adapters.torch.fitting import batch, mlp
from tests.adapters.torch.watching import same, watch
from torch import nn

from sonde.adapters.torch.eager import dispatch_mode as eager
from sonde.adapters.torch.mode_stack import mode_stack

LINEAR = ("addmm",)


class _Presence:
    """Notes, inside each optimizer step, whether the mode is there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[bool] = []
        original = torch.optim.SGD.__dict__["_init_group"]

        def noting(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            stack = mode_stack()
            self.steps.append(any(isinstance(mode, eager.Observer) for mode in stack))
            return original(optimizer, *args, **kwargs)

        monkeypatch.setattr(torch.optim.SGD, "_init_group", noting)


@pytest.fixture
def present(monkeypatch: pytest.MonkeyPatch) -> _Presence:
    return _Presence(monkeypatch)


def train(
    steps: int = 8,
    *,
    before: Callable[[int, nn.Module, Any], None] = lambda step, net, optimizer: None,
    kind: Any = torch.optim.SGD,
) -> list[Any]:
    torch.manual_seed(3)
    net = mlp()
    optimizer = kind(net.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(steps):
        x, y = batch()
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        before(step, net, optimizer)
        optimizer.step()
        losses.append(loss.item())
    return [losses, [value.clone() for value in net.state_dict().values()]]


def test_the_mode_steps_aside_where_no_op_of_the_optimizer_is_wanted(present: _Presence) -> None:
    bare = train()
    present.steps.clear()
    with watch(ops=LINEAR) as seen:
        watched = train()
    assert same(bare, watched)
    # The first step makes the momentum, two more show that nothing changes any more.
    assert present.steps == [True] * 3 + [False] * 5
    assert seen.reports == []
    assert len({seen.graph(step).id for step in range(1, 8)}) == 1
    assert seen.names(7) == seen.names(1)
    assert any("optimizer-SGD" in name for name in seen.names(7))
    assert seen.calls(1)
    for step in range(8):
        assert [call.node.name for call in seen.calls(step)] == [
            call.node.name for call in seen.calls(1)
        ]


def test_an_optimizer_whose_ops_are_wanted_is_watched_in_every_step(present: _Presence) -> None:
    with watch(ops=("name-regex(Default/optimizer-SGD/.*)",)) as seen:
        train()
    assert present.steps == [True] * 8
    assert all(seen.calls(step) for step in range(8))


def test_a_changed_option_or_gradient_is_observed_again(present: _Presence) -> None:
    def before(step: int, net: nn.Module, optimizer: Any) -> None:
        if step == 4:
            optimizer.param_groups[0]["lr"] = 0.05  # no other ops
        if step == 5:
            optimizer.param_groups[0]["weight_decay"] = 0.1
        if step == 7:
            next(net.parameters()).grad = None

    with watch(ops=LINEAR) as seen:
        train(before=before)
    assert present.steps == [True, True, True, False, False, True, True, True]
    assert len(seen.names(5)) > len(seen.names(4))
    assert len(seen.names(7)) < len(seen.names(6))


class Own(torch.optim.SGD):
    """May do anything at any step."""


def test_an_optimizer_of_the_programs_own_class_is_always_watched(present: _Presence) -> None:
    with watch(ops=LINEAR):
        train(kind=Own)
    assert present.steps == [True] * 8


def test_an_optimizer_with_a_hook_is_always_watched(present: _Presence) -> None:
    def before(step: int, net: nn.Module, optimizer: Any) -> None:
        if step == 0:
            optimizer.register_step_pre_hook(lambda *_: None)

    with watch(ops=LINEAR):
        train(before=before)
    assert present.steps == [True] * 8


def test_steps_that_do_not_end_with_the_optimizer_are_watched_throughout(
    present: _Presence,
) -> None:
    with watch(ops=LINEAR, step_by="manual") as seen:

        def before(step: int, net: nn.Module, optimizer: Any) -> None:
            assert seen.adapter is not None
            if step:
                seen.adapter.end_step()

        train(before=before)
    assert present.steps == [True] * 8


def test_an_optimizer_that_raises_leaves_the_rest_watched(
    present: _Presence, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*args: Any, **kwargs: Any) -> None:
        raise ArithmeticError("as planned")

    torch.manual_seed(3)
    net = mlp()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step() -> None:
        x, y = batch()
        optimizer.zero_grad()
        nn.functional.mse_loss(net(x), y).backward()
        optimizer.step()

    with watch(ops=LINEAR) as seen:
        for _ in range(3):
            step()
        with monkeypatch.context() as patch:
            patch.setattr(sys.modules["torch.optim.sgd"], "sgd", fails)
            with pytest.raises(ArithmeticError):
                step()
        step()
        step()
    # The step in which it raised goes on until an optimizer gets through.
    assert [len(seen.calls(number)) for number in sorted(seen.steps)][:4] == [
        len(seen.calls(0)),
        len(seen.calls(0)),
        len(seen.calls(0)),
        2 * len(seen.calls(0)),
    ]
    assert not any(isinstance(mode, eager.Observer) for mode in mode_stack())


def test_ops_wanted_later_are_observed_from_the_next_step_on(present: _Presence) -> None:
    with watch(ops=LINEAR) as seen:

        def before(step: int, net: nn.Module, optimizer: Any) -> None:
            assert seen.adapter is not None
            if step == 5:
                seen.adapter.refresh()

        train(before=before)
    assert present.steps == [True, True, True, False, False, True, False, False]
