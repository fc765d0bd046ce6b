"""Every dumped op can be run again by hand: its inputs and attributes give its outputs."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.adapters.torch.dumping import arrays, dumping
from torch import nn
from torch.nn import functional

from sonde.core.graph import OpNode
from sonde.dump.reader import Dump

# A file is in C order; a matrix product of the transposed operand it was takes another path through
# the library and may differ in the last bits.
LAST_BITS = {"addmm", "mm"}
RANDOM = {"native_dropout", "bernoulli_", "rand", "randn", "empty_like"}


class LeNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 3, 3, padding=1)
        self.norm = nn.BatchNorm2d(3)
        self.conv2 = nn.Conv2d(3, 4, 3)
        self.fc1 = nn.Linear(16, 8)
        self.fc2 = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.max_pool2d(self.norm(self.conv1(x)).relu_(), 2)
        x = functional.avg_pool2d(torch.tanh(self.conv2(x)), 2, stride=1, padding=1)
        x = x[:, :, :2, :2].flatten(1)
        return self.fc2(functional.relu(self.fc1(x), inplace=True))


def value_of(text: str) -> Any:
    if text.startswith("torch."):
        return getattr(torch, text.removeprefix("torch."))
    if text.startswith("device("):
        return torch.device("cpu")
    return ast.literal_eval(text)


def run_again(node: OpNode, inputs: list[torch.Tensor], attributes: dict[str, str]) -> list[Any]:
    """The op by hand; outputs as the graph counts them: results, then what was written to."""
    packet = getattr(torch.ops.aten, node.type)
    errors = []
    for name in packet.overloads():
        overload = getattr(packet, name)
        try:
            return call(overload, [each.clone() for each in inputs], attributes, node)
        except (RuntimeError, TypeError, LookupError, ValueError) as error:
            errors.append(f"{name}: {error}")
    raise AssertionError(f"{node.name}: {errors}")


def call(
    overload: Any, inputs: list[torch.Tensor], attributes: dict[str, str], node: OpNode
) -> Any:
    left = list(inputs)
    given = dict(attributes)
    arguments: list[Any] = []
    keywords: dict[str, Any] = {}
    written: list[torch.Tensor] = []
    schema = overload._schema
    tensors = [each for each in schema.arguments if "Tensor" in str(each.type)]
    for argument in schema.arguments:
        kind = str(argument.type)
        if argument.name in given:
            value = value_of(given.pop(argument.name))
        elif "List[Tensor]" in kind or "Tensor[]" in kind:
            count = len(inputs) // sum("List" in str(each.type) for each in tensors)
            value, left = left[:count], left[count:]
        elif (
            "Tensor" in kind
            and left
            and not (argument.has_default_value() and argument.default_value is not None)
        ):
            value = left.pop(0)
        elif argument.has_default_value():
            value = argument.default_value
        else:
            raise LookupError(argument.name)
        is_written = argument.alias_info is not None and argument.alias_info.is_write
        if is_written or (
            node.type == "native_batch_norm" and argument.name in ("running_mean", "running_var")
        ):
            written += value if isinstance(value, list) else [value] if value is not None else []
        if argument.kwarg_only:
            keywords[argument.name] = value
        else:
            arguments.append(value)
    if left or given:
        raise LookupError(f"{len(left)} tensors and {sorted(given)} left over")
    result = overload(*arguments, **keywords)
    results = [each for each in _flat(result) if isinstance(each, torch.Tensor)]
    results += [each for each in written if not any(each is other for other in results)]
    if len(results) != len(node.outputs):
        raise LookupError(f"{len(results)} outputs, not {len(node.outputs)}")
    return results


def _flat(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [item for each in value for item in _flat(each)]
    return [value]


def train(optimizer_of: Any, steps: int) -> None:
    torch.manual_seed(1)
    net = LeNet()
    optimizer = optimizer_of(net.parameters())
    for _ in range(steps):
        x, y = torch.randn(4, 1, 8, 8), torch.tensor([0, 1, 2, 0])
        optimizer.zero_grad()
        functional.cross_entropy(net(x), y).backward()
        optimizer.step()


@pytest.mark.parametrize(
    "optimizer_of",
    [
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01, foreach=False),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=True),
        lambda p: torch.optim.Adam(p, foreach=False),
    ],
    ids=["sgd", "foreach_sgd", "adam"],
)
def test_every_op_of_a_lenet_gives_its_outputs_again(tmp_path: Path, optimizer_of: Any) -> None:
    with dumping(tmp_path, save_kernel_args=True, asynchronous=False):
        train(optimizer_of, 2)
    values = arrays(tmp_path)
    dump = Dump(tmp_path)
    replayed: set[str] = set()
    for directory in dump.step_dirs():
        assert directory.graph_id is not None
        for node in dump.graph(directory.graph_id).ops:
            if node.type in RANDOM or node.type.startswith(("empty", "uniform_", "normal_")):
                continue
            step = directory.step
            inputs = [
                torch.from_numpy(values[(step, node.name, "input", slot)].copy())
                for slot in range(len(node.inputs))
            ]
            arguments = dump.arguments(node, step)
            assert arguments is not None
            again = run_again(node, inputs, arguments)
            for slot, result in enumerate(again):
                expected = values[(step, node.name, "output", slot)]
                assert result.shape == expected.shape, (node.name, slot)
                if node.type in LAST_BITS:
                    np.testing.assert_allclose(result.detach(), expected, rtol=1e-5, atol=1e-6)
                    continue
                is_same = np.array_equal(
                    result.detach().numpy(), expected, equal_nan=expected.dtype.kind == "f"
                )
                assert is_same, (node.name, slot)
            replayed.add(node.type)
    assert {"convolution", "convolution_backward", "native_batch_norm", "relu_"} <= replayed
    assert {"native_batch_norm_backward", "addmm", "mm", "nll_loss_forward"} <= replayed


def test_inputs_of_ops_that_write_are_the_values_from_before(tmp_path: Path) -> None:
    norm = nn.BatchNorm1d(2, momentum=0.5)
    x = torch.tensor([[1.0, -2.0], [3.0, -6.0]])
    weight = nn.Parameter(torch.tensor([4.0]))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    with dumping(tmp_path):
        norm(x)
        x.relu_()
        (weight * 3).sum().backward()
        optimizer.step()
    found = arrays(tmp_path)
    name = "Default/norm-BatchNorm1d/native_batch_norm-op0"
    assert found[(0, name, "input", 3)].tolist() == [0, 0]
    assert found[(0, name, "input", 4)].tolist() == [1, 1]
    assert found[(0, name, "output", 3)].tolist() == [1, -2]
    assert found[(0, name, "output", 4)].tolist() == [1.5, 4.5]
    assert found[(0, "Default/relu_-op0", "input", 0)].tolist() == [[1, -2], [3, -6]]
    assert found[(0, "Default/relu_-op0", "output", 0)].tolist() == [[1, 0], [3, 0]]
    assert found[(0, "Default/optimizer-SGD/add_-op0", "input", 0)].tolist() == [4]
    assert found[(0, "Default/optimizer-SGD/add_-op0", "output", 0)].tolist() == [1]
