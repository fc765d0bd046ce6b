"""Updates of an optimizer that is no optimizer of torch, as Keras has them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from tests.adapters.torch.watching import watch
from torch import nn

import sonde


class Optimizer:
    """Descends as an optimizer of Keras does: gradients and variables are arguments."""

    gradient_accumulation_steps: int | None = None

    def __init__(self, rate: float = 0.5) -> None:
        self.learning_rate = torch.tensor(rate)
        self._iterations = torch.tensor(0)

    def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
        for gradient, variable in zip(grads, trainable_variables, strict=True):
            variable.value.sub_(self.learning_rate * gradient)
        self._iterations.add_(1)


@pytest.fixture
def keras(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Optimizer]]:
    """The class of optimizers, importable as that of Keras; it is as before after the test."""
    before = Optimizer.apply
    optimizers = ModuleType("keras.src.optimizers.base_optimizer")
    vars(optimizers)["BaseOptimizer"] = Optimizer
    backend = ModuleType("keras.src.backend")
    vars(backend)["backend"] = lambda: "torch"
    for module in (optimizers, backend):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(
        torch.Tensor, "assign_add", lambda this, more: this.add_(more), raising=False
    )
    yield Optimizer
    assert Optimizer.apply is before


def train(optimizer: Optimizer, steps: int = 3, *, bad: int = -1) -> list[list[float]]:
    """The weights after each batch."""
    torch.manual_seed(0)
    net = nn.Linear(2, 1)
    variables = [SimpleNamespace(value=each) for each in net.parameters()]
    found = []
    for step in range(steps):
        x = torch.full((4, 2), float("nan") if step == bad else step + 1.0)
        gradients = torch.autograd.grad(net(x).square().mean(), list(net.parameters()))
        with torch.no_grad():
            optimizer.apply((each for each in gradients), iter(variables))
        assert all(each.grad is None for each in net.parameters())
        found.append(net.weight.detach().flatten().tolist())
    return found


def test_each_update_ends_a_step_and_changes_the_same(keras: type[Optimizer]) -> None:
    bare = train(keras())
    with watch() as seen:
        assert train(keras()) == bare
    assert list(seen.steps) == [0, 1, 2]
    assert [seen.graph(step).ops[-1].name for step in range(3)] == [
        "Default/optimizer-Optimizer/add_-op0"
    ] * 3


def test_a_class_that_is_imported_later_is_found(
    keras: type[Optimizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = sys.modules["keras.src.optimizers.base_optimizer"]
    monkeypatch.delitem(sys.modules, module.__name__)
    with watch() as seen:
        train(keras(), 2)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        train(keras(), 2)
    assert list(seen.steps) == [0, 1]


def test_batches_that_only_accumulate_end_no_step(keras: type[Optimizer]) -> None:
    optimizer = keras()
    optimizer.gradient_accumulation_steps = 3
    with watch() as seen:
        train(optimizer, 6)
    assert list(seen.steps) == [0, 1]


def test_another_backend_of_keras_is_left_alone(
    keras: type[Optimizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = keras.apply
    monkeypatch.setattr(sys.modules["keras.src.backend"], "backend", lambda: "jax")
    with watch() as seen:
        train(keras())
        assert keras.apply is before
    assert not any(seen.complete.values())


def test_an_optimizer_that_cannot_be_followed_trains_all_the_same(
    keras: type[Optimizer], capfd: pytest.CaptureFixture[str]
) -> None:
    bare = train(keras())
    optimizer = keras()
    optimizer.learning_rate = 0.5  # type: ignore[assignment]
    with watch() as seen:
        assert train(optimizer) == bare
    assert not any(seen.complete.values())
    lines = [line for line in capfd.readouterr().err.splitlines() if "keras" in line]
    assert len(lines) == 1
    assert lines[0].startswith("sonde: updates of Keras end no steps: AttributeError: ")


def test_the_guard_sees_the_gradients_and_skips_an_update(
    keras: type[Optimizer], tmp_path: Any
) -> None:
    optimizer = keras()
    with sonde.guard(directory=tmp_path, on_trigger="skip"):
        weights = train(optimizer, bad=1)
    assert weights[0] == weights[1] != weights[2]
    assert int(optimizer._iterations) == 3
    signals = sonde.signals(tmp_path)
    assert signals["is_skipped"].tolist() == [0, 1, 0]
    assert signals["grad_norm"][0] > 0
    assert signals["learning_rate"].tolist() == [0.5] * 3
