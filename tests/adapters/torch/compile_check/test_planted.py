"""Mistakes planted in the compiler: ``sonde compile-check`` names the op."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.adapters.torch.compile_check import compile_checks
from tests.adapters.torch.compile_check.compile_checks import (
    DECOMPOSITIONS,
    aten,
    checked,
    new_net,
    train,
)
from torch import nn
from torch._inductor import lowering
from torch.nn import functional

from sonde.adapters.torch.compile_check import private

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("nothing_compiled"),
]
LOWERINGS: dict[Any, Any] = lowering.lowerings


def wrong_gelu(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    return 0.5 * x * (1 + torch.tanh(0.79788456 * (x + 0.044715 * x * x * x)))


def wrong_gelu_backward(
    gradient: torch.Tensor, x: torch.Tensor, approximate: str = "none"
) -> torch.Tensor:
    return gradient * torch.sigmoid(1.702 * x)


def wrong_addmm(bias: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.mm(a, b) + bias * 1.01


@pytest.mark.parametrize(
    ("op", "wrong", "phase", "line"),
    [
        ("gelu", wrong_gelu, "forward", "hidden = functional.gelu(self.norm(self.first(x)))"),
        (
            "gelu_backward",
            wrong_gelu_backward,
            "backward",
            "hidden = functional.gelu(self.norm(self.first(x)))",
        ),
        ("addmm", wrong_addmm, "forward", "hidden = functional.gelu(self.norm(self.first(x)))"),
    ],
)
def test_a_wrong_decomposition_is_named(
    monkeypatch: pytest.MonkeyPatch, op: str, wrong: Any, phase: str, line: str
) -> None:
    monkeypatch.setitem(DECOMPOSITIONS, getattr(aten, op).default, wrong)
    verdict = checked(lambda: train(new_net()))
    found = verdict.graphs[0].wrong
    assert not verdict.agrees
    assert found is not None
    assert (found.op, found.phase, found.fault) == (f"aten.{op}.default", phase, "decomposition")
    assert found.source is not None
    assert found.source.file == compile_checks.__file__
    assert found.source.code == line
    assert found.compiled > found.allowed > found.eager
    assert found.shape[0] == 8


def test_the_op_is_found_with_little_memory_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DECOMPOSITIONS, aten.gelu_backward.default, wrong_gelu_backward)
    found = checked(lambda: train(new_net()), budget=4096).graphs[0].wrong
    assert found is not None
    assert (found.op, found.phase) == ("aten.gelu_backward.default", "backward")


def test_a_single_nan_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def first_is_nan(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
        mask = torch.arange(x.numel()).view(x.shape) == 5
        return torch.where(mask, float("nan"), 0.5 * x * (1 + torch.erf(x * 0.5**0.5)))

    monkeypatch.setitem(DECOMPOSITIONS, aten.gelu.default, first_is_nan)
    verdict = checked(lambda: train(new_net()))
    found = verdict.graphs[0].wrong
    assert found is not None
    assert (found.op, found.broken) == ("aten.gelu.default", 1)
    assert verdict.graphs[0].comparisons[0].broken > 0


def test_a_mistake_that_no_op_makes_by_itself_is_still_a_deviation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        outputs = next(node for node in graph.graph.nodes if node.op == "output").args[0]
        if len(outputs) > 1:  # asked for the values of ops
            return graph.forward
        return lambda *values: tuple(part * 1.01 for part in graph(*values))

    monkeypatch.setattr(private, "backend_function", lambda *_: backend)
    verdict = checked(lambda: train(new_net()))
    assert not verdict.agrees
    assert verdict.graphs[0].wrong is None
    assert {each.kind for each in verdict.graphs[0].disagreeing} == {"output", "gradient"}
    assert verdict.graphs[0].together is not None


class Shifted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x)
        shifted = hidden + 1
        squashed = torch.tanh(shifted)
        return squashed * 2 - x.mean()


@pytest.mark.parametrize(
    ("is_of_dynamo", "phase", "op"),
    [
        (False, "forward", "aten.add.Tensor"),
        # Forward by itself, with what it keeps for backward as outputs, is right.
        (True, "forward and backward", "add"),
    ],
)
def test_an_op_that_is_wrong_only_when_fused_is_named(
    monkeypatch: pytest.MonkeyPatch, is_of_dynamo: bool, phase: str, op: str
) -> None:
    names = ("add",) if is_of_dynamo else ("add", "add.Tensor")

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        """Gets a value wrong unless it has to be written to memory."""
        wrong = copy.deepcopy(graph)
        for node in list(wrong.graph.nodes):
            is_meant = getattr(node.target, "__name__", "") in names
            if is_meant and "output" not in {user.op for user in node.users}:
                with wrong.graph.inserting_after(node):
                    bent = wrong.graph.call_function(torch.mul, (node, 1.01))
                node.replace_all_uses_with(bent, lambda user, bent=bent: user is not bent)
        wrong.recompile()
        return wrong.forward

    monkeypatch.setattr(private, "backend_function", lambda *_: backend)
    graph = checked(lambda: train(new_net(Shifted))).graphs[0]
    assert not graph.agrees
    assert graph.wrong is None
    assert graph.together is not None
    assert graph.together.phase == phase
    (member,) = graph.together.members
    assert member.op == op
    assert member.source is not None
    assert member.source.code == "shifted = hidden + 1"


class Powers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 32)
        self.last = nn.Linear(32, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.exp(self.first(x))
        return self.last(torch.sigmoid(hidden) * hidden)


def bent_exp(factor: float) -> Callable[[torch.Tensor], torch.Tensor]:
    """Right but for a factor: it rounds once, as the op does."""

    def decomposition(x: torch.Tensor) -> torch.Tensor:
        return ((torch.exp2(x.float() * 1.4426950408889634)) * factor).to(x.dtype)

    return decomposition


@pytest.mark.parametrize(("factor", "named"), [(1.0, False), (1.02, True), (0.95, True)])
def test_in_bfloat16_an_op_that_is_off_by_more_than_its_rounding_is_named(
    monkeypatch: pytest.MonkeyPatch, factor: float, named: bool
) -> None:
    monkeypatch.setitem(DECOMPOSITIONS, aten.exp.default, bent_exp(factor))
    verdict = checked(lambda: train(new_net(Powers).bfloat16(), x_dtype=torch.bfloat16))
    found = verdict.graphs[0].wrong
    assert verdict.agrees is not named
    assert (found is not None) is named
    if found is not None:
        assert (found.op, found.phase, found.dtype) == ("aten.exp.default", "forward", "bfloat16")
        assert found.source is not None
        assert found.source.code == "hidden = torch.exp(self.first(x))"
        assert found.compiled == pytest.approx(abs(factor - 1), abs=0.004)
        assert found.compiled > found.allowed > found.eager


def test_a_wrong_lowering_of_inductor_in_bfloat16_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    right, multiply = LOWERINGS[aten.exp.default], LOWERINGS[aten.mul.Tensor]

    def program() -> None:
        train(new_net(Powers).bfloat16(), backend="inductor", x_dtype=torch.bfloat16)

    assert checked(program).agrees
    torch._dynamo.reset()
    monkeypatch.setitem(LOWERINGS, aten.exp.default, lambda x: multiply(right(x), 1.01))
    found = checked(program).graphs[0].wrong
    assert found is not None
    assert (found.op, found.phase, found.fault) == ("aten.exp.default", "forward", "lowering")
    assert found.compiled == pytest.approx(0.0103, abs=0.001)


def test_a_wrong_lowering_of_inductor_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Small(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(6, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden = functional.dropout(torch.tanh(self.first(x)), 0.2)
            return torch.sigmoid(hidden) * hidden

    right = LOWERINGS[aten.tanh.default]
    multiply = LOWERINGS[aten.mul.Tensor]
    healthy = checked(lambda: train(new_net(Small), backend="inductor", dtype=torch.bfloat16))
    assert healthy.agrees
    assert healthy.is_complete
    assert healthy.graphs[0].judged_ops == healthy.graphs[0].op_count
    torch._dynamo.reset()
    monkeypatch.setitem(LOWERINGS, aten.tanh.default, lambda x: multiply(right(x), 1.001))
    verdict = checked(lambda: train(new_net(Small), backend="inductor"))
    found = verdict.graphs[0].wrong
    assert found is not None
    assert (found.op, found.phase, found.fault) == ("aten.tanh.default", "forward", "lowering")
    assert found.source is not None
    assert found.source.code == "hidden = functional.dropout(torch.tanh(self.first(x)), 0.2)"
    assert found.compiled == pytest.approx(1e-3, rel=0.01)
    assert verdict.graphs[0].random_ops == 1
    assert verdict.graphs[0].is_random_matched
