"""``set_dump``: ops are selected and deselected while the training runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.adapters.torch.dumping import dumping, files
from torch import nn

import sonde
from sonde.adapters.torch import attach
from sonde.core.errors import SondeError, UsageError


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 2)
        self.rest = nn.Sequential(nn.Linear(2, 2), nn.Tanh())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.rest(self.first(x))


@pytest.fixture(autouse=True)
def _no_switches() -> Iterator[None]:
    attach._SWITCHES.clear()
    yield
    attach._SWITCHES.clear()


def step(net: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    net(torch.ones(1, 2)).sum().backward()
    optimizer.step()


def dumped(tmp_path: Path, plan: dict[int, list[tuple[object, bool]]]) -> dict[int, set[str]]:
    """The ops dumped in each of three steps; ``plan`` says what is switched before which."""
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with dumping(tmp_path, dump_mode="set_dump"):
        for number in range(3):
            for target, enabled in plan.get(number, []):
                sonde.set_dump(net.rest if target == "module" else target, enabled)
            step(net, optimizer)
    found: dict[int, set[str]] = {0: set(), 1: set(), 2: set()}
    for key in files(tmp_path):
        found[key[0]].add(key[1])
    return found


def test_nothing_is_dumped_until_it_is_switched_on(tmp_path: Path) -> None:
    net = Net()
    with dumping(tmp_path, dump_mode="set_dump"):
        step(net, torch.optim.SGD(net.parameters(), lr=0.1))
    assert not list(tmp_path.rglob("*.npy"))


@pytest.mark.document(
    116,
    says="`dump_mode` 2: dump target and its contents using `mindspore.set_dump`",
    how="`sonde.set_dump(module)`, `sonde.set_dump(module, False)`; also while the training runs",
)
@pytest.mark.parametrize("target", ["module", "rest"])
def test_a_module_selects_its_ops_forward_and_backward(tmp_path: Path, target: str) -> None:
    found = dumped(tmp_path, {1: [(target, True)], 2: [(target, False)]})
    assert found[0] == found[2] == set()
    scopes = {name.rsplit("/", 1)[0] for name in found[1]}
    assert scopes == {
        "rest.0.weight",
        "rest.0.bias",
        "Default/network-Net/rest-Sequential/0-Linear",
        "Default/network-Net/rest-Sequential/1-Tanh",
        "Gradients/Default/network-Net/rest-Sequential/0-Linear",
        "Gradients/Default/network-Net/rest-Sequential/1-Tanh",
    }


def test_the_last_call_of_set_dump_decides_for_the_ops_it_covers(tmp_path: Path) -> None:
    found = dumped(tmp_path, {0: [("module", True), ("rest.1", False)], 2: [("rest.1", True)]})
    assert not any("1-Tanh" in name for name in found[0] | found[1])
    assert any("1-Tanh" in name for name in found[2])
    assert any("0-Linear" in name for name in found[0] & found[1] & found[2])


def test_ops_are_named_as_in_kernels(tmp_path: Path) -> None:
    found = dumped(
        tmp_path,
        {
            0: [("TANH", True)],
            1: [("TANH", False), ("Default/network-Net/first-Linear/addmm-op0", True)],
            2: [("name-regex(.*optimizer.*)", True)],
        },
    )
    assert found[0] == {
        "Default/network-Net/rest-Sequential/1-Tanh/tanh-op0",
        "Gradients/Default/network-Net/rest-Sequential/1-Tanh/tanh_backward-op0",
    }
    assert found[1] == {"Default/network-Net/first-Linear/addmm-op0"}
    assert found[2] > found[1]
    assert any("optimizer-SGD" in name for name in found[2])


def test_set_dump_may_be_called_before_the_capture_begins(tmp_path: Path) -> None:
    sonde.set_dump("tanh")
    assert len(dumped(tmp_path, {})[0]) == 2


def test_switching_in_the_middle_of_a_step_holds_from_there_on(tmp_path: Path) -> None:
    x = torch.ones(2)
    with dumping(tmp_path, dump_mode="set_dump"):
        for _ in range(2):
            _ = x * 2
        sonde.set_dump("mul")
        for _ in range(2):
            _ = x * 2
        sonde.set_dump("mul", False)
        _ = x * 2
    names = {key[1] for key in files(tmp_path)}
    assert names == {"Default/mul-op2", "Default/mul-op3"}


@pytest.mark.parametrize("dump_mode", ["all", "set_dump"])
def test_ops_are_asked_for_again_only_where_set_dump_selects(
    tmp_path: Path, dump_mode: str
) -> None:
    with dumping(tmp_path, dump_mode=dump_mode):
        adapter = attach.running_adapter()
        assert adapter is not None
        before = adapter.observer.tables.generation
        sonde.set_dump("mul")
        assert (adapter.observer.tables.generation != before) == (dump_mode == "set_dump")


def test_a_target_that_is_neither_module_nor_name_is_refused() -> None:
    with pytest.raises(
        UsageError,
        match="a class of modules or optimizers, a function of torch or a pattern, not int",
    ):
        sonde.set_dump(3)  # type: ignore[arg-type]
    with pytest.raises(SondeError, match="not a regular expression"):
        sonde.set_dump("name-regex(()")


@pytest.mark.document(
    142,
    says="`initial_iteration`: the initial iteration number for Dump",
    how="key `initial_iteration`; a resumed training counts on by itself",
)
def test_capture_in_code_counts_steps_from_its_block(tmp_path: Path) -> None:
    config = tmp_path / "dump.json"
    config.write_text(
        '{"common_dump_settings": {"dump_mode": 0, "path": "%s", "net_name": "Net",'
        ' "iteration": "5-6", "initial_iteration": 5, "input_output": 2, "kernels": [],'
        ' "support_device": [0]},'
        ' "e2e_dump_settings": {"enable": false}}' % (tmp_path / "out")
    )
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    step(net, optimizer)
    with sonde.capture(config):
        for _ in range(3):
            step(net, optimizer)
    found = files(tmp_path / "out")
    assert {key[0] for key in found} == {5, 6}
    assert {key[2] for key in found} == {"output"}


def test_manual_steps_in_code(tmp_path: Path) -> None:
    from tests.adapters.torch.dumping import config

    with sonde.capture(config(tmp_path), step_by="manual"):
        for _ in range(3):
            _ = torch.ones(2) * 2
            sonde.step()
    sonde.step()  # outside a capture it does nothing
    assert {key[0] for key in files(tmp_path)} == {0, 1, 2}
    with (
        pytest.raises(UsageError, match="step_by must be 'optimizer' or 'manual'"),
        sonde.capture(config(tmp_path / "no"), step_by="epoch"),
    ):
        pass


@pytest.mark.parametrize("enabled", ["yes", 1, None, 0.0])
def test_only_true_and_false_switch(enabled: object) -> None:
    with pytest.raises(TypeError, match="set_dump: enabled must be True or False, not") as refused:
        sonde.set_dump("relu", enabled)  # type: ignore[arg-type]
    assert isinstance(refused.value, SondeError)
    assert attach._SWITCHES == {}


def test_an_optimizer_is_selected_by_its_name(tmp_path: Path) -> None:
    optimizer = torch.optim.SGD([torch.ones(1)], lr=0.1)
    with pytest.raises(UsageError) as refused:
        sonde.set_dump(optimizer)  # type: ignore[arg-type]
    assert str(refused.value) == (
        "set_dump takes a module, a class of modules or optimizers, a function of torch or a "
        "pattern, not the optimizer SGD; the pattern 'SGD' selects its ops: set_dump('SGD') "
        "[set-dump-target]"
    )
    names = dumped(tmp_path, {0: [("SGD", True)]})[0]
    assert names
    assert all(name.startswith("Default/optimizer-SGD/") for name in names)


def test_another_class_of_torch_is_refused_by_its_name() -> None:
    with pytest.raises(UsageError, match="or a pattern, not DataLoader "):
        sonde.set_dump(torch.utils.data.DataLoader)
