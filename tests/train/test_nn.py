"""``sonde.train.nn``: MindSpore's names and arguments on torch's modules and optimizers."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch
from torch import nn as torch_nn

from sonde.train import learning_rate, nn


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Dense(4, 3, weight_init="zeros", bias_init=0.5)
        self.norm = nn.BatchNorm1d(3)

    def construct(self, x: torch.Tensor) -> Any:
        return self.norm(self.fc(x))


def test_a_cell_is_a_module_with_mindspore_s_methods() -> None:
    net = Net()
    assert net.set_train(False) is net
    assert not net.norm.training
    assert net.set_train().norm.training
    assert net.cls_name == "Net"
    names = [each.name for each in net.get_parameters()]
    assert names == [*dict(net.named_parameters()), *dict(net.named_buffers())]
    trainable = net.trainable_params()
    assert [each.name for each in trainable] == ["fc.weight", "fc.bias", "norm.weight", "norm.bias"]
    assert (trainable[0].shape, trainable[0].requires_grad) == ((3, 4), True)
    assert trainable[0].parameter is net.fc.weight
    assert list(net.get_parameters(expand=False)) == []
    with pytest.raises(NotImplementedError, match="Empty defines neither"):
        type("Empty", (nn.Cell,), {})()(1)


def test_weights_are_initialised_as_told() -> None:
    net = Net()
    assert net.fc.weight.detach().abs().sum() == 0
    assert net.fc.bias.tolist() == [0.5, 0.5, 0.5]
    assert nn.Dense(4, 3, has_bias=False).bias is None
    torch.manual_seed(0)
    normal = nn.Dense(100, 100, weight_init="normal").weight.detach()
    assert float(normal.std()) == pytest.approx(0.01, rel=0.05)
    truncated = nn.Dense(100, 100, weight_init=nn.TruncatedNormal(0.02)).weight.detach()
    assert float(truncated.abs().max()) <= 0.04
    with pytest.raises(ValueError, match="weight_init must be one of normal"):
        nn.Dense(4, 3, weight_init="nromal")


@pytest.mark.parametrize(
    ("pad_mode", "padding", "size"), [("valid", 0, 6), ("same", 0, 8), ("pad", 2, 10)]
)
def test_the_padding_of_a_convolution(pad_mode: str, padding: int, size: int) -> None:
    made = nn.Conv2d(2, 3, 3, pad_mode=pad_mode, padding=padding)
    assert made(torch.ones(1, 2, 8, 8)).shape == (1, 3, size, size)
    assert made.bias is None
    with pytest.raises(ValueError, match="pad_mode"):
        nn.Conv2d(2, 3, 3, pad_mode="full")


def test_labels_of_the_cross_entropy_are_indexes_or_one_hot() -> None:
    scores, labels = torch.randn(5, 3), torch.tensor([0, 2, 1, 1, 0])
    expected = torch_nn.functional.cross_entropy(scores, labels, reduction="none")
    sparse = nn.SoftmaxCrossEntropyWithLogits(sparse=True)
    assert torch.equal(sparse(scores, labels.int()), expected)
    one_hot = torch_nn.functional.one_hot(labels)
    dense = nn.SoftmaxCrossEntropyWithLogits()(scores, one_hot)
    torch.testing.assert_close(dense, expected)


def test_momentum_is_mindspore_s_formula() -> None:
    weight = torch.nn.Parameter(torch.tensor([1.0], dtype=torch.float64))
    optimizer = nn.Momentum([weight], learning_rate=0.1, momentum=0.9, weight_decay=0.01)
    value, velocity = 1.0, 0.0
    for gradient in (2.0, -1.0, 0.5):
        weight.grad = torch.tensor([gradient], dtype=torch.float64)
        optimizer.step()
        velocity = 0.9 * velocity + gradient + 0.01 * value
        value -= 0.1 * velocity
        assert float(weight.detach()) == pytest.approx(value, rel=1e-12)


def test_other_modules_are_torch_s_under_their_own_name() -> None:
    made = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    assert isinstance(made, torch_nn.Sequential)
    assert [type(each).__name__ for each in made] == ["Linear", "ReLU"]
    torch.manual_seed(0)
    mine = nn.Linear(4, 3)
    torch.manual_seed(0)
    assert torch.equal(mine.weight, torch_nn.Linear(4, 3).weight)
    assert type(pickle.loads(pickle.dumps(made))) is type(made)


def test_a_layer_chooses_a_type_inside_a_network_of_another() -> None:
    class Two(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.low, self.full = nn.Linear(4, 4), nn.Linear(4, 4)

        def construct(self, x: torch.Tensor) -> tuple[Any, Any]:
            return self.low(x), self.full(x)

    net = Two().to_float(torch.bfloat16)
    net.full.to_float(torch.float32)
    low, full = net(torch.ones(2, 4))
    assert (low.dtype, full.dtype) == (torch.bfloat16, torch.float32)
    low.float().sum().backward()
    assert net.low.weight.grad is not None
    assert net.low.weight.grad.dtype == torch.float32
    with pytest.raises(ValueError, match="dst_type"):
        net.to_float(torch.int8)


def test_without_to_float_a_cell_computes_what_torch_computes() -> None:
    torch.manual_seed(0)
    x = torch.randn(5, 4)
    torch.manual_seed(1)
    mine = nn.Sequential(nn.Dense(4, 3), nn.Tanh())
    torch.manual_seed(1)
    theirs = torch_nn.Sequential(torch_nn.Linear(4, 3), torch_nn.Tanh())
    assert torch.equal(mine(x), theirs(x))


@pytest.mark.document(90)
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("ExponentialDecayLR", (0.1, 0.9, 4)),
        ("NaturalExpDecayLR", (0.1, 0.9, 4)),
        ("InverseDecayLR", (0.1, 0.9, 4)),
        ("CosineDecayLR", (0.01, 0.1, 4)),
        ("PolynomialDecayLR", (0.1, 0.01, 4, 0.5)),
        ("WarmUpLR", (0.1, 4)),
    ],
)
def test_the_schedules_are_those_of_the_toolkit(name: str, arguments: tuple[float, ...]) -> None:
    made: Any = getattr(nn, name)
    assert made is getattr(learning_rate, name)
    net, schedule = Net(), made(*arguments)
    optimizer = nn.Momentum(net.trainable_params(), schedule, 0.9)
    seen = []
    optimizer.register_step_pre_hook(
        lambda optimizer, *_: seen.append(optimizer.param_groups[0]["lr"])
    )
    for _ in range(5):
        net(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    assert seen == [schedule(step) for step in range(5)]


def test_the_functions_that_list_rates_are_those_of_the_toolkit() -> None:
    names = [name for name in nn.__all__ if name.endswith("_lr")]
    assert len(names) == 7
    assert all(getattr(nn, name) is getattr(learning_rate, name) for name in names)
