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
def test_biases_may_start_as_zeros(name: str) -> None:
    assert not looks_at("weight_initialization", name)


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
    assert looks_at("weight_initialization", name)


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
