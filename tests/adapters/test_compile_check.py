"""Compiled code held against float64: healthy networks agree, planted mistakes are named."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch._inductor import decomposition, lowering
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from sonde.adapters.torch.compile_check import private
from sonde.adapters.torch.compile_check.check import CheckDoneError, CompileCheck
from sonde.adapters.torch.compile_check.updates import updated
from sonde.core.agreement import CompileVerdict

pytestmark = pytest.mark.filterwarnings("ignore")

BACKEND = "aot_eager_decomp_partition"  # Inductor's graphs, without the time Inductor takes
aten = torch.ops.aten
DECOMPOSITIONS: dict[Any, Any] = decomposition.decompositions
LOWERINGS: dict[Any, Any] = lowering.lowerings


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 16)
        self.norm = nn.BatchNorm1d(16)
        self.last = nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = functional.gelu(self.norm(self.first(x)))
        return self.last(functional.dropout(hidden, 0.3))


def train(
    net: nn.Module,
    *,
    backend: Any = BACKEND,
    steps: int = 2,
    dtype: torch.dtype = torch.float32,
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.SGD,
    clip: float | None = None,
    x_dtype: torch.dtype = torch.float32,
) -> list[torch.Tensor]:
    """Train a little; the losses."""
    torch.manual_seed(1)
    run = net if backend is None else torch.compile(net, backend=backend)
    stepper = optimizer(net.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        x, y = torch.randn(8, 6), torch.randint(3, (8,))
        stepper.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype is torch.bfloat16):
            loss = functional.cross_entropy(run(x.to(x_dtype)).float(), y)
        loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(net.parameters(), clip)
        stepper.step()
        losses.append(loss.detach())
    return losses


def checked(program: Callable[[], Any], *, step: int = 0, budget: int = 1 << 30) -> CompileVerdict:
    """The verdict about a step of a program that is ended there."""
    check = CompileCheck(step, continues=False, say=lambda _: None, budget=budget)
    with pytest.raises(CheckDoneError), check.attached():
        program()
    assert check.verdict is not None
    assert torch.compile.__module__ == "torch"
    return check.verdict


def new_net(kind: type[nn.Module] = Net) -> nn.Module:
    torch.manual_seed(0)
    return kind()


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
    assert by_name["output 0"].norm == pytest.approx(float(exact.norm()), rel=1e-12)
    assert by_name["output 0"].eager == pytest.approx(float((logits - exact).norm()), rel=1e-9)
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
        stepped = float((parameter - 0.1 * parameter.grad).norm())
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


def test_numbers_that_are_not_finite_anywhere_are_no_mistake_and_told() -> None:
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


# ---------------------------------------------------------------- planted mistakes


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
    assert found.source.file == __file__
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


@pytest.mark.slow
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


@pytest.mark.slow
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


# ---------------------------------------------------------------- the program round it


def test_a_program_that_goes_on_computes_what_it_would_without_the_check() -> None:
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


def test_an_optimizer_that_cannot_be_copied_is_said() -> None:
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
def test_what_the_program_does_to_gradients_is_done_in_every_way(factor: float) -> None:
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


@pytest.mark.slow
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
