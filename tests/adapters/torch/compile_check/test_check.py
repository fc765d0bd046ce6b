"""Compiled code compared with float64: healthy networks agree, planted mistakes are named."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.adapters.torch.compile_check.compile_checks import (
    BACKEND,
    DECOMPOSITIONS,
    aten,
    checked,
    new_net,
    train,
)
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from sonde.adapters.torch.compile_check import private
from sonde.adapters.torch.compile_check.check import CompileCheck
from sonde.adapters.torch.compile_check.updates import updated

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("nothing_compiled"),
]


# ---------------------------------------------------------------- healthy networks


@pytest.mark.parametrize(
    ("dtype", "optimizer"),
    [(torch.float32, torch.optim.AdamW), (torch.bfloat16, torch.optim.SGD)],
)
def test_a_healthy_network_agrees(
    dtype: torch.dtype, optimizer: Callable[..., torch.optim.Optimizer]
) -> None:
    verdict = checked(lambda: train(new_net(), dtype=dtype, optimizer=optimizer, clip=0.1))
    (graph,) = verdict.graphs
    assert verdict.agrees
    assert verdict.is_complete
    assert verdict.problems == graph.problems == ()
    assert (graph.random_ops, graph.is_random_matched) == (1, True)
    assert graph.judged_ops == graph.op_count > 20
    assert [(total.kind, total.count) for total in verdict.totals] == [
        ("output", 1),
        ("buffer", 3),
        ("gradient", 6),
        ("weight", 6),
    ]
    assert [each.name for each in verdict.weights] == [
        "first.weight",
        "first.bias",
        "norm.weight",
        "norm.bias",
        "last.weight",
        "last.bias",
    ]
    low, high = (1e-9, 1e-6) if dtype is torch.float32 else (1e-4, 1e-1)
    assert low < verdict.totals[0].eager < high
    assert low < verdict.totals[2].compiled < high


def test_the_reference_is_the_network_in_float64() -> None:
    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(6, 16)
            self.last = nn.Linear(16, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.last(torch.tanh(self.first(x)))

    net = new_net(Plain)
    twin = copy.deepcopy(net).double()
    single = copy.deepcopy(net)
    verdict = checked(lambda: train(net))
    torch.manual_seed(1)
    x, y = torch.randn(8, 6), torch.randint(3, (8,))
    logits = single(x)
    functional.cross_entropy(logits, y).backward()
    outside = logits.detach().requires_grad_()
    functional.cross_entropy(outside, y).backward()
    exact = twin(x.double())
    assert outside.grad is not None
    exact.backward(outside.grad.double())
    by_name = {each.name: each for each in verdict.graphs[0].comparisons}
    assert by_name["output 0"].norm == pytest.approx(exact.norm().item(), rel=1e-12)
    assert by_name["output 0"].eager == pytest.approx((logits - exact).norm().item(), rel=1e-9)
    for name, parameter in twin.named_parameters():
        mine = dict(single.named_parameters())[name].grad
        assert parameter.grad is not None
        assert mine is not None
        assert by_name[name].norm == pytest.approx(float(parameter.grad.norm()), rel=1e-12)
        error = float((mine - parameter.grad).norm())
        assert by_name[name].eager == pytest.approx(error, rel=1e-6)
    for each in verdict.weights:
        parameter = dict(twin.named_parameters())[each.name]
        assert parameter.grad is not None
        stepped = (parameter - 0.1 * parameter.grad).norm().item()
        assert each.norm == pytest.approx(stepped, rel=1e-6)


def test_another_order_of_addition_is_no_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    class Summed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(6, 4096)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            wide = self.first(x)
            return torch.stack([wide.sum(1), (wide * wide).sum(1), wide.abs().sum(1)], 1)

    def one_by_one(x: torch.Tensor, dim: Any, keepdim: bool = False, **_: Any) -> torch.Tensor:
        total = torch.cumsum(x, dim[0]).select(dim[0], -1)
        return total.unsqueeze(dim[0]) if keepdim else total

    monkeypatch.setitem(DECOMPOSITIONS, aten.sum.dim_IntList, one_by_one)
    assert checked(lambda: train(new_net(Summed))).agrees


def test_code_that_rounds_less_than_eager_is_closer_and_agrees(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Rounded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(6, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            low = self.first(x).bfloat16()
            for _ in range(8):
                low = functional.silu(low) * 1.5 + 0.1
            return low.float()

    # What a fused kernel does: it computes in float32 and rounds at the end.
    monkeypatch.setattr(private, "backend_function", lambda *_: _in_float32)
    verdict = checked(lambda: train(new_net(Rounded)))
    assert verdict.agrees
    assert verdict.totals[0].closer == "compiled"
    assert verdict.totals[0].compiled < verdict.totals[0].eager / 2


def _in_float32(graph: torch.fx.GraphModule, inputs: Any) -> Any:
    wide = copy.deepcopy(graph)
    for node in wide.graph.nodes:
        if node.op == "call_method" and node.target == "bfloat16":
            node.target = "float"
    wide.recompile()
    return wide.forward


def test_recomputed_parts_and_graph_breaks_are_checked() -> None:
    class Broken(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(6, 16)
            self.last = nn.Linear(16, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden = checkpoint(self.part, x, use_reentrant=False)
            torch._dynamo.graph_break()
            return self.last(hidden)

        def part(self, x: torch.Tensor) -> torch.Tensor:
            return functional.dropout(torch.tanh(self.first(x)), 0.5)

    verdict = checked(lambda: train(new_net(Broken)))
    assert verdict.agrees
    assert [graph.name for graph in verdict.graphs] == ["Broken, graph 0", "Broken, graph 1"]
    assert [graph.random_ops for graph in verdict.graphs] == [1, 0]
    assert all(graph.is_random_matched for graph in verdict.graphs)
    assert all(graph.judged_ops == graph.op_count for graph in verdict.graphs)


def test_a_program_that_compiles_nothing_is_checked_as_if_it_did(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from torch._dynamo.backends.debugging import aot_eager_decomp_partition

    monkeypatch.setattr(private, "backend_function", lambda *_: aot_eager_decomp_partition)
    verdict = checked(lambda: train(nn.Sequential(new_net(), nn.Identity()), backend=None), step=1)
    assert verdict.agrees
    assert (verdict.step, verdict.graphs[0].name) == (1, "Sequential")
    assert nn.Module.__call__.__module__ == "torch.nn.modules.module"


def test_numbers_that_are_non_finite_in_all_ways_agree_and_are_reported() -> None:
    class Logarithm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(6, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.first(torch.log(x))

    verdict = checked(lambda: train(new_net(Logarithm)))
    assert verdict.agrees
    assert verdict.graphs[0].problems == (
        "3 of 3 outputs and gradients hold NaN or infinities in float64 too; only finite elements "
        "are compared, and sonde run --overflow finds where they begin",
    )


def test_choices_that_fall_the_other_way_are_counted_not_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Chosen(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(6, 300)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            logits = self.first(x)
            return logits, logits.argmax(1)

    def program() -> None:
        net = new_net(Chosen)
        run = torch.compile(net, backend="aot_eager")
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        run(torch.randn(40, 6))[0].sum().backward()
        optimizer.step()

    def flipping(count: int) -> Callable[..., Any]:
        def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
            def call(*values: Any) -> Any:
                *others, choice = graph(*values)
                if choice.dtype is torch.int64:
                    choice = torch.where(torch.arange(40) < count, 299 - choice, choice)
                return (*others, choice)

            return call

        return lambda *_: backend

    monkeypatch.setattr(private, "backend_function", flipping(2))
    assert checked(program).graphs[0].disagreeing == ()
    torch._dynamo.reset()
    monkeypatch.setattr(private, "backend_function", flipping(9))
    (wrong,) = checked(program).graphs[0].disagreeing
    assert (wrong.name, wrong.dtype) == ("output 1", "int64")
    assert wrong.compiled == pytest.approx((9 - 2.4) ** 0.5)


# ---------------------------------------------------------------- the program round it


def test_a_program_that_continues_computes_the_same_as_without_the_check() -> None:
    net, twin = new_net(), new_net()
    alone = train(twin, steps=3, optimizer=torch.optim.AdamW)
    torch._dynamo.reset()
    check = CompileCheck(1, continues=True, say=lambda _: None)
    with check.attached():
        observed = train(net, steps=3, optimizer=torch.optim.AdamW)
    assert check.verdict is not None
    assert check.verdict.step == 1
    assert [float(loss) for loss in observed] == [float(loss) for loss in alone]
    for one, other in zip(net.state_dict().values(), twin.state_dict().values(), strict=True):
        assert torch.equal(one, other)


def test_a_step_that_never_comes_leaves_no_verdict() -> None:
    check = CompileCheck(5, continues=False, say=lambda _: None)
    with check.attached():
        train(new_net())
    assert check.verdict is None
    assert check.steps_seen == 2


def test_an_optimizer_that_cannot_be_copied_is_reported() -> None:
    net = new_net()

    def program() -> None:
        run = torch.compile(net, backend=BACKEND)
        optimizer = torch.optim.LBFGS(net.parameters(), max_iter=1)
        run(torch.randn(8, 6)).sum().backward()
        optimizer.step(lambda: torch.zeros(()))

    verdict = checked(program)
    assert verdict.agrees
    assert verdict.weights == ()
    assert verdict.problems[0].startswith(
        "updated weights were not compared: LBFGS.step() on a copy failed: TypeError: "
    )


@pytest.mark.parametrize("factor", [1.0, 0.01, 65536.0])
def test_changes_of_gradients_by_the_program_are_applied_in_every_way(factor: float) -> None:
    net = nn.Linear(3, 2)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    raw = {each: torch.randn_like(each) for each in net.parameters()}
    for parameter, gradient in raw.items():
        parameter.grad = gradient * factor
    other = {each: gradient * 1.5 for each, gradient in raw.items()}
    found = updated(optimizer, raw, other)
    twin = copy.deepcopy(net)
    for mine, theirs in zip(twin.parameters(), net.parameters(), strict=True):
        mine.grad = other[theirs] * factor
    torch.optim.Adam(twin.parameters(), lr=0.1).step()
    for mine, theirs in zip(twin.parameters(), net.parameters(), strict=True):
        torch.testing.assert_close(found[theirs], mine.detach(), rtol=1e-6, atol=1e-7)


def test_accumulated_gradients_are_kept_and_the_difference_added() -> None:
    weight = nn.Parameter(torch.tensor([1.0, 2.0]))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    weight.grad = torch.tensor([5.0, -1.0])  # of which this graph gave (1, 1)
    eager, way = {weight: torch.tensor([1.0, 1.0])}, {weight: torch.tensor([1.0, 1.25])}
    assert updated(optimizer, eager, way)[weight].tolist() == [-4.0, 2.75]
    assert updated(optimizer, eager, way, wide=True)[weight].dtype is torch.float64
    assert weight.tolist() == [1.0, 2.0]


# ---------------------------------------------------------------- models of others


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_models_of_transformers_agree(name: str) -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    if name == "gpt2":
        config = transformers.GPT2Config(
            n_layer=1, n_head=2, n_embd=16, vocab_size=50, n_positions=16
        )
        net = transformers.GPT2LMHeadModel(config)
    else:
        config = transformers.LlamaConfig(
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            intermediate_size=32,
            vocab_size=50,
        )
        net = transformers.LlamaForCausalLM(config)

    def program() -> None:
        run = torch.compile(net.train(), backend=BACKEND)
        optimizer = torch.optim.AdamW(net.parameters())
        tokens = torch.randint(50, (2, 8))
        with torch.autocast("cpu", torch.bfloat16, enabled=name == "llama"):
            loss = run(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()

    verdict = checked(program)
    assert verdict.agrees
    assert verdict.is_complete
    assert all(graph.judged_ops == graph.op_count for graph in verdict.graphs)
    assert sum(graph.random_ops for graph in verdict.graphs) == (4 if name == "gpt2" else 0)
    assert len(verdict.weights) == len(list(net.parameters()))
