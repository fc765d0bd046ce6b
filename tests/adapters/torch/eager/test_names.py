"""The names of ops: scope, type and number, the same in every step and run."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.adapters.torch.tensor_trainings import Cubed
from tests.adapters.torch.watching import watch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from sonde.adapters.torch.eager.step_inputs import StepInputRegistry


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 2, 3)
        self.body = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        self.fc = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = functional.relu(self.conv1(x)).mean((2, 3))
        return self.fc(self.body(h))


def step(net: nn.Module, x: torch.Tensor, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    net(x).square().sum().backward()
    optimizer.step()


def test_forward_ops_have_the_place_of_their_module() -> None:
    net = Net()
    with watch() as seen:
        step(net, torch.ones(2, 1, 5, 5), torch.optim.SGD(net.parameters(), lr=0.1))
    assert [name for name in seen.names() if name.startswith("Default/network")] == [
        "Default/network-Net/conv1-Conv2d/convolution-op0",
        "Default/network-Net/relu-op0",
        "Default/network-Net/detach-op0",
        "Default/network-Net/mean-op0",
        "Default/network-Net/body-Sequential/0-Linear/t-op0",
        "Default/network-Net/body-Sequential/0-Linear/addmm-op0",
        "Default/network-Net/body-Sequential/1-ReLU/relu-op0",
        "Default/network-Net/body-Sequential/1-ReLU/detach-op0",
        "Default/network-Net/fc-Linear/t-op0",
        "Default/network-Net/fc-Linear/addmm-op0",
    ]


def test_ops_outside_any_module_are_in_the_root_and_numbered_each_on_its_own() -> None:
    with watch() as seen:
        x = torch.ones(3)
        _ = (x * 2) * 3 + x
    assert seen.names() == [
        "Default/ones-op0",
        "Default/mul-op0",
        "Default/mul-op1",
        "Default/add-op0",
    ]


def test_backward_ops_have_the_scope_of_the_forward_op_that_caused_them() -> None:
    net = Net()
    with watch() as seen:
        step(net, torch.ones(2, 1, 5, 5), torch.optim.SGD(net.parameters(), lr=0.1))
    backward = [node for node in seen.graph().ops if node.phase == "backward"]
    assert backward
    assert all(node.name.startswith("Gradients/Default") for node in backward)
    causes = {
        node.name: dict(node.attributes)["forward"]
        for node in backward
        if "forward" in dict(node.attributes)
    }
    assert causes["Gradients/Default/network-Net/conv1-Conv2d/convolution_backward-op0"] == (
        "Default/network-Net/conv1-Conv2d/convolution-op0"
    )
    assert causes["Gradients/Default/network-Net/fc-Linear/mm-op0"] == (
        "Default/network-Net/fc-Linear/addmm-op0"
    )
    assert causes["Gradients/Default/network-Net/threshold_backward-op0"] == (
        "Default/network-Net/relu-op0"
    )
    for name, forward in causes.items():
        assert name.split("/")[1:-1] == forward.split("/")[:-1]


def test_optimizer_ops_have_the_scope_of_their_optimizer() -> None:
    net = nn.Linear(2, 1)
    with watch() as seen:
        step(net, torch.ones(1, 2), torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.5))
        step(net, torch.ones(1, 2), torch.optim.Adam(net.parameters(), foreach=True))
    first = [node for node in seen.graph(0).ops if node.phase == "optimizer"]
    assert {node.scope for node in first} == {"Default/optimizer-SGD"}
    assert first[-1].name == "Default/optimizer-SGD/add_-op1"
    second = [node for node in seen.graph(1).ops if node.phase == "optimizer"]
    assert {node.scope for node in second} == {"Default/optimizer-Adam"}
    assert "Default/optimizer-Adam/_foreach_addcdiv_-op0" in {node.name for node in second}


def test_weights_of_a_second_equal_network_are_in_their_own_modules() -> None:
    first, second = (nn.Sequential(nn.Sequential(nn.Linear(3, 3))) for _ in range(2))
    with watch() as seen:
        second(first(torch.ones(2, 3)))
    scopes = {node.name: node.scope for node in seen.graph().nodes if node.kind == "parameter"}
    assert scopes == {
        "0.0.weight": "Default/first-Sequential/0-Sequential/0-Linear",
        "0.0.bias": "Default/first-Sequential/0-Sequential/0-Linear",
        "second-Sequential.0.0.weight": "Default/second-Sequential/0-Sequential/0-Linear",
        "second-Sequential.0.0.bias": "Default/second-Sequential/0-Sequential/0-Linear",
    }


class Holder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = [nn.Linear(2, 2), nn.Linear(2, 2)]
        self.table = {"up": nn.Linear(2, 2)}
        self.shared = nn.Linear(2, 2)
        self.again = self.shared

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        x = self.table["up"](x)
        return self.again(self.shared(x))


def test_modules_in_plain_lists_and_dicts_are_named_by_what_holds_them() -> None:
    with watch() as seen:
        Holder()(torch.ones(1, 2))
    assert [name for name in seen.names() if "addmm" in name] == [
        "Default/network-Holder/layers_0-Linear/addmm-op0",
        "Default/network-Holder/layers_1-Linear/addmm-op0",
        "Default/network-Holder/table_up-Linear/addmm-op0",
        "Default/network-Holder/shared-Linear/addmm-op0",
        "Default/network-Holder/shared-Linear/addmm-op1",
    ]


def test_wrappers_leave_no_trace_in_names() -> None:
    net = Net()
    wrapped = nn.DataParallel(net)
    with watch() as seen:
        wrapped(torch.ones(1, 1, 5, 5))
    assert "Default/network-Net/conv1-Conv2d/convolution-op0" in seen.names()


def test_classes_that_torch_makes_of_the_modules_own_leave_no_trace_in_names() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    nn.utils.parametrizations.weight_norm(net[0])
    made = type(
        "DDPLinear", (nn.Linear,), {"__module__": "torch.distributed._composable.replicate"}
    )
    net[1].__class__ = made
    with watch() as seen, torch.no_grad():
        net(torch.ones(1, 4))
    assert type(net[0]).__name__ == "ParametrizedLinear"
    assert "Default/network-Sequential/0-Linear/addmm-op0" in seen.names()
    assert "Default/network-Sequential/1-Linear/addmm-op0" in seen.names()


def test_a_class_of_the_program_keeps_its_name() -> None:
    class ParametrizedLinear(nn.Linear):
        pass

    net = ParametrizedLinear(4, 2)
    with watch() as seen, torch.no_grad():
        net(torch.ones(1, 4))
    assert "Default/network-ParametrizedLinear/addmm-op0" in seen.names()


def test_names_are_the_same_in_every_step_whatever_the_batch() -> None:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with watch() as seen:
        for size in (4, 4, 3):
            step(net, torch.ones(size, 1, 5, 5), optimizer)
    assert seen.names(0) == seen.names(1) == seen.names(2)
    assert {seen.graph(number).id for number in range(3)} == {0}


def test_custom_functions_have_the_place_they_are_called_from() -> None:
    class Cube(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return Cubed.apply(x)

    x = torch.ones(2, requires_grad=True)
    with watch() as seen:
        Cube()(x).sum().backward()
    assert [name for name in seen.names() if "Cube" in name] == [
        "Default/network-Cube/mul-op0",
        "Default/network-Cube/mul-op1",
        "Gradients/Default/network-Cube/mul-op0",
        "Gradients/Default/network-Cube/mul-op1",
        "Gradients/Default/network-Cube/mul-op2",
    ]


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_ops_recomputed_by_checkpointing_are_marked(use_reentrant: bool) -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    x = torch.ones(1, 2, requires_grad=True)
    with watch() as seen:
        checkpoint(net, x, use_reentrant=use_reentrant).sum().backward()
    names = seen.names()
    assert "Default/network-Sequential/0-Linear/addmm-op0" in names
    assert "recompute_Default/network-Sequential/0-Linear/addmm-op0" in names
    assert "Gradients/Default/network-Sequential/1-Tanh/tanh_backward-op0" in names
    again = seen.graph().node("recompute_Default/network-Sequential/0-Linear/addmm-op0")
    assert again.phase == "backward"


def test_ops_of_a_double_backward_have_the_scope_of_the_first_forward() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh())
    x = torch.ones(4, 2, requires_grad=True)
    with watch() as seen:
        (slope,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
        slope.square().sum().backward()
    backward = [node for node in seen.graph().ops if node.phase == "backward"]
    scopes = {node.scope for node in backward}
    assert "Gradients/Default/network-Sequential/1-Tanh" in scopes
    assert "Gradients/Default/network-Sequential/0-Linear" in scopes
    assert not any(scope.startswith("Gradients/Gradients") for scope in scopes)


def test_a_module_that_raises_does_not_keep_its_scope() -> None:
    class Bad(nn.Module):
        def forward(self, x: torch.Tensor, error: type[BaseException]) -> torch.Tensor:
            raise error

    bad = nn.ModuleList([Bad()])
    with watch() as seen:
        for error in (ValueError, KeyboardInterrupt):
            with pytest.raises(error):
                bad[0](torch.ones(1) + 1, error)
            _ = torch.ones(1) * 2
    assert {node.scope for node in seen.graph().ops} == {"Default"}


def test_an_optimizer_that_raises_does_not_keep_its_scope_or_its_step() -> None:
    class Bad(torch.optim.SGD):
        def step(self, closure: Any = None) -> None:
            raise ValueError("no")

    weight, other = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    bad, good = Bad([weight], lr=0.1), torch.optim.SGD([other], lr=0.1)
    with watch() as seen:
        for _ in range(3):
            (weight.sum() + other.sum()).backward()
            with pytest.raises(ValueError, match="no"):
                bad.step()
            _ = torch.ones(1) * 2
            good.step()
    assert list(seen.complete) == [0, 1, 2]
    assert seen.graph().node("Default/mul-op0").phase == "forward"


def test_leaves_are_named_by_module_optimizer_and_variable() -> None:
    net = nn.BatchNorm1d(2)
    net.scale = torch.tensor(3.0)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.5)
    with watch() as seen:
        for _ in range(2):
            batch, target = torch.ones(2, 2).clone(), [torch.zeros(2, 2)]
            optimizer.zero_grad(set_to_none=False)
            (functional.mse_loss(net(batch) * net.scale, target[0])).backward()
            optimizer.step()
    leaves = {(node.type, node.name) for node in seen.graph(1) if node.kind != "op"}
    assert leaves == {
        ("Parameter", "weight"),
        ("Parameter", "bias"),
        ("Parameter", "weight.grad"),
        ("Parameter", "bias.grad"),
        ("Parameter", "running_mean"),
        ("Parameter", "running_var"),
        ("Parameter", "num_batches_tracked"),
        ("Parameter", "momentum_buffer.weight"),
        ("Parameter", "momentum_buffer.bias"),
        ("Constant", "scale"),
    }
    with watch() as seen:
        images, pair = torch.from_numpy(torch.ones(2, 2).numpy()), {"mask": torch.ones(2)}
        free = torch.ones(2, requires_grad=True)
        seen.adapter.end_step()
        _ = images * pair["mask"] + free
        seen.adapter.end_step()
    assert [(node.type, node.name) for node in seen.graph(1) if node.kind != "op"] == [
        ("Input", "images"),
        ("Input", "pair.mask"),
        ("Parameter", "free"),
    ]


def test_two_inputs_of_one_name_are_distinguished() -> None:
    xs = [torch.ones(2), torch.ones(2)]
    with watch() as seen:
        for x in list(xs):
            del xs[0]
            _ = x * 2
            del x
    leaves = [node.name for node in seen.graph() if node.kind == "input"]
    assert len(leaves) == len(set(leaves)) == 2


@pytest.mark.parametrize("matcher", ["native", "python"])
def test_the_gradient_that_backward_begins_with_belongs_to_the_backward_pass(
    matcher: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the program makes the same tensor by itself, at the same place of the step."""
    monkeypatch.setenv("SONDE_MATCHER", matcher)
    weight = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    with watch() as seen:
        for number in range(4):
            loss = weight.square().sum()
            if number % 2:
                loss.backward()
            else:
                loss.backward(torch.ones_like(loss))
            optimizer.step()
    seeds = [
        [(node.name, node.phase) for node in seen.graph(number).ops if node.type == "ones_like"]
        for number in range(4)
    ]
    own = ("Default/ones_like-op0", "forward")
    torchs = ("Gradients/Default/ones_like-op0", "backward")
    assert seeds == [[own], [torchs], [own], [torchs]]


def test_tensors_that_torch_has_just_made_are_not_searched_in_modules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searches: list[StepInputRegistry] = []
    collect = StepInputRegistry._collect

    def counted(registry: StepInputRegistry) -> None:
        searches.append(registry)
        collect(registry)

    monkeypatch.setattr(StepInputRegistry, "_collect", counted)
    net = nn.Sequential(*(nn.Linear(2, 2) for _ in range(10)))
    with watch() as seen:
        step(net, torch.ones(2, 2), torch.optim.Adam(net.parameters()))
    assert seen.names().count("Default/optimizer-Adam/lift_fresh-op19") == 1
    assert len(searches) < 10
