"""What the recommended watchpoints look at, and what they leave alone."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
import torch
from tests.debugger.driving import driven
from tests.debugger.hub import Hub
from torch import nn

from sonde.core.operators.patterns import OpPattern
from sonde.debugger.initial_watchpoints import recommended_draft, starting_set
from sonde.watch.conditions import RECOMMENDED

DRAFTS = {each.condition: recommended_draft(each) for each in RECOMMENDED}


def looks_at(condition: str, name: str) -> bool:
    (text,) = DRAFTS[condition].ops
    return OpPattern.parse(text).matches(name, "", "", "/" not in name)


@pytest.mark.parametrize(
    "name", ["fc.bias", "bias", "attention.in_proj_bias", "lstm.bias_ih_l0", "norm.beta"]
)
def test_biases_may_stay_zeros(name: str) -> None:
    assert not looks_at("weight_too_small", name)


@pytest.mark.parametrize(
    ("condition", "name"),
    [
        ("weight_not_changed", "conv.bias"),
        ("gradient_vanishing", "conv.bias.grad"),
        ("gradient_vanishing", "lstm.bias_ih_l0.grad"),
    ],
)
def test_biases_may_have_no_effect(condition: str, name: str) -> None:
    assert not looks_at(condition, name)


@pytest.mark.parametrize(
    ("condition", "name"),
    [("weight_not_changed", "conv.weight"), ("gradient_vanishing", "conv.weight.grad")],
)
def test_other_weights_may_not_be_without(condition: str, name: str) -> None:
    assert looks_at(condition, name)


@pytest.mark.parametrize("name", ["fc.weight", "embedding.weight", "lstm.weight_ih_l0", "scale"])
def test_other_weights_may_not(name: str) -> None:
    assert looks_at("weight_too_small", name)


@pytest.mark.parametrize(
    "op", ["zeros-op0", "zeros_like-op12", "new_zeros-op1", "zero_-op3", "_foreach_zero_-op0"]
)
def test_ops_that_make_zeros_may(op: str) -> None:
    assert not looks_at("tensor_all_zero", f"Default/network-Net/{op}")


@pytest.mark.parametrize(
    "name", ["bn.num_batches_tracked", "data-1", "Default/optimizer-Adam/mul_-op0"]
)
def test_counters_inputs_and_optimizer_state_may(name: str) -> None:
    assert not looks_at("tensor_all_zero", name)


@pytest.mark.parametrize("op", ["select-op0", "t-op3", "split_with_sizes-op0", "_unsafe_view-op1"])
def test_ops_that_only_hand_on_zeros_may(op: str) -> None:
    assert not looks_at("tensor_all_zero", f"Default/network-Net/rnn-LSTM/{op}")


@pytest.mark.parametrize(
    "op",
    [
        "_amp_foreach_non_finite_check_and_unscale_-op0",
        "eq-op0",
        "isnan-op3",
        "logical_and-op0",
        "scalar_tensor-op1",
    ],
)
def test_ops_whose_zero_is_a_good_answer_may(op: str) -> None:
    assert not looks_at("tensor_all_zero", f"Default/{op}")


@pytest.mark.parametrize("layer", ["LSTM", "GRU", "RNN", "LSTMCell"])
def test_what_is_made_of_the_first_state_of_a_recurrent_layer_may(layer: str) -> None:
    assert not looks_at("tensor_all_zero", f"Gradients/Default/network-Net/r-{layer}/mul-op0")


@pytest.mark.parametrize(
    "op",
    [
        "relu-op0",
        "equal_split-op0",
        "tanh-op0",
        "select_backward-op0",
        "view_as_complex-op0",
        "mul-op3",
        "threshold_backward-op1",
    ],
)
def test_other_ops_may_not(op: str) -> None:
    assert looks_at("tensor_all_zero", f"Default/network-Net/{op}")


def _train(net: nn.Module, loss: Callable[[], torch.Tensor], scaler: object = None) -> None:
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for _ in range(4):
        optimizer.zero_grad()
        if isinstance(scaler, torch.amp.GradScaler):
            scaler.scale(loss()).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss().backward()
            optimizer.step()


def _scaled() -> None:
    net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))

    def loss() -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found: torch.Tensor = net(torch.randn(8, 16))
        return nn.functional.cross_entropy(found.float(), torch.randint(0, 4, (8,)))

    _train(net, loss, torch.amp.GradScaler("cpu", init_scale=128.0))


def _masked_attention() -> None:
    net = nn.ModuleDict(
        {"core": nn.Transformer(16, 2, 1, 1, 32, batch_first=True), "head": nn.Linear(16, 20)}
    )
    mask = nn.Transformer.generate_square_subsequent_mask(6)
    padding = torch.zeros(4, 6, dtype=torch.bool)
    padding[:, 5] = True

    def loss() -> torch.Tensor:
        x, y = torch.randn(4, 6, 16), torch.randint(0, 20, (24,))
        found = net["core"](x, x, tgt_mask=mask, src_key_padding_mask=padding)
        return nn.functional.cross_entropy(net["head"](found).flatten(0, 1), y, label_smoothing=0.1)

    _train(net, loss)


def _recurrent() -> None:
    net = nn.LSTM(8, 16, 2, batch_first=True, dropout=0.1)
    _train(net, lambda: (net(torch.randn(4, 5, 8))[0] ** 2).mean())


def _normalised() -> None:
    """The bias of the convolution has no effect."""
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.LeakyReLU(), nn.Flatten(), nn.Linear(288, 4)
    )
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
    for _ in range(6):
        optimizer.zero_grad()
        found = net(torch.randn(16, 3, 8, 8))
        nn.functional.cross_entropy(found, torch.randint(0, 4, (16,))).backward()
        optimizer.step()


@pytest.mark.parametrize("training", [_scaled, _masked_attention, _recurrent, _normalised])
def test_they_find_nothing_in_a_healthy_training(training: Callable[[], None]) -> None:
    specs = starting_set((), recommended=True)
    quiet = tuple(msgspec.structs.replace(each, break_after=0) for each in specs)
    torch.manual_seed(0)
    _, rank = driven(training, lambda rank: None, hub=Hub(paused=False, watchpoints=quiet))
    assert [hit for hit in rank.hits if hit.verdict == "hit"] == []


class _LowRank(nn.Module):
    """Its second factor starts as zeros, so that the first has no gradient in the first step."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = nn.Linear(8, 8).requires_grad_(False)
        self.a = nn.Parameter(torch.randn(2, 8) * 0.1)
        self.b = nn.Parameter(torch.zeros(8, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.frozen(x) + x @ self.a.t() @ self.b.t()
        return result


def _low_rank() -> None:
    net = nn.Sequential(_LowRank(), nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    _fit(optimizer, lambda: net(torch.randn(16, 8)).square().mean())


class _Experts(nn.Module):
    """The last expert never runs; integers that are all zero occur in every step."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(8, 4) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen = torch.zeros(len(x), dtype=torch.long) * torch.arange(len(x))
        result: torch.Tensor = self.experts[0](x) + self.experts[1](x) * (1 + chosen[:, None])
        return result


def _idle_expert() -> None:
    net = _Experts()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
    _fit(optimizer, lambda: net(torch.randn(16, 8)).square().mean())


def _rate_of_zero() -> None:
    net = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    _fit(optimizer, lambda: net(torch.randn(16, 8)).square().mean())


def _converged() -> None:
    net = nn.Linear(4, 1, bias=False)
    x = torch.eye(4)
    optimizer = torch.optim.SGD(net.parameters(), lr=1.5)
    _fit(optimizer, lambda: (net(x) - 1).square().mean(), 60)


def _fit(
    optimizer: torch.optim.Optimizer, loss: Callable[[], torch.Tensor], steps: int = 8
) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()


def _hits(training: Callable[[], None]) -> list[str]:
    specs = starting_set((), recommended=True)
    quiet = tuple(msgspec.structs.replace(each, break_after=0) for each in specs)
    torch.manual_seed(0)
    _, rank = driven(training, lambda rank: None, hub=Hub(paused=False, watchpoints=quiet))
    names = {each.id: each.name for each in specs}
    return sorted({names[hit.watchpoint] for hit in rank.hits if hit.verdict == "hit"})


def _averaged() -> None:
    net = nn.Linear(8, 1)
    average = torch.optim.swa_utils.AveragedModel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
    average.update_parameters(net)
    _fit(optimizer, lambda: net(torch.randn(16, 8)).square().mean() + 0 * average.n_averaged)


@pytest.mark.parametrize(
    "training",
    [_low_rank, _idle_expert, _rate_of_zero, _converged, _averaged],
)
def test_an_excuse_is_no_hit(training: Callable[[], None]) -> None:
    assert _hits(training) == []


def _detached() -> None:
    first, second = nn.Linear(8, 8), nn.Linear(8, 1)
    net = nn.Sequential(first, second)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
    first.register_forward_hook(lambda module, args, result: result.detach())
    _fit(optimizer, lambda: net(torch.randn(16, 8)).square().mean())


def _stuck_at_zero() -> None:
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    for parameter in net.parameters():
        nn.init.zeros_(parameter)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
    _fit(optimizer, lambda: (net(torch.randn(16, 8)) - 1).square().mean())


@pytest.mark.parametrize(
    ("training", "name"),
    [(_detached, "weights do not move"), (_stuck_at_zero, "weights stay zeros")],
)
def test_what_lasts_is_a_hit(training: Callable[[], None], name: str) -> None:
    assert name in _hits(training)
