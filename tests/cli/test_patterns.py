"""One language for ops: a pattern selects the same ops wherever it is given."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from tests.capture.settings import document
from torch import nn

import sonde
from sonde.adapters.torch import attach as attaching
from sonde.adapters.torch.attach import attach
from sonde.adapters.torch.dump_targets import DumpTarget
from sonde.capture.config import CaptureConfig, load_config
from sonde.capture.options import config_from_options
from sonde.cli.main import main
from sonde.core.errors import UsageError
from sonde.dump.reader import Dump
from sonde.server.graph.index import GraphIndex
from sonde.server.graph.search import search
from sonde.watch.categories import TENSOR
from sonde.watch.watchpoint import WatchedNode, make_watches
from sonde.wire.convert import wire_node
from sonde.wire.queries import NodesQuery
from sonde.wire.shapes import ConditionSpec, WatchpointSpec


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attn = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(self.attn(x))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 2, 3)
        self.bn1 = nn.BatchNorm2d(2)
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool2d(2)
        self.layers = nn.ModuleList([Block(), Block()])
        self.fc1 = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(self.relu(self.bn1(self.conv1(x)))).flatten(1)
        x = self.fc1(x)
        for layer in self.layers:
            x = layer(x)
        return F.softmax(x, 1)


def train(before: Callable[[Net], None] = lambda net: None) -> None:
    torch.manual_seed(0)
    net = Net()
    before(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    F.cross_entropy(net(torch.rand(3, 1, 6, 6)), torch.tensor([0, 1, 2])).backward()
    optimizer.step()


NET = "(Gradients/)?Default/network-Net"
FC1 = rf"{NET}/fc1-Linear/.*|fc1\..*"
FIRST_ATTN = rf"{NET}/layers-ModuleList/0-Block/attn-Linear/.*|layers\.0\.attn\..*"
LINEAR = rf"{FC1}|{NET}/layers-ModuleList/.-Block/attn-Linear/.*|layers\..\.attn\..*"
CONV = r".*/(convolution|convolution_backward)-op0"
MATMUL = r".*/(mm|addmm)-op\d+"

# What a pattern selects, as an expression for whole names.
TABLE = {
    "Default/network-Net/fc1-Linear/addmm-op0": "Default/network-Net/fc1-Linear/addmm-op0",
    "fc1-Linear/addmm-op0": "Default/network-Net/fc1-Linear/addmm-op0",
    "addmm-op0": ".*/addmm-op0",
    "Default/network-Net/fc1-Linear/": r"Default/network-Net/fc1-Linear/.*|fc1\..*",
    "fc1-Linear/": FC1,
    "fc1": FC1,
    "net.fc1": FC1,
    "layers.0.attn": FIRST_ATTN,
    "0.attn": FIRST_ATTN,
    "layers/0/attn/": FIRST_ATTN,
    "Linear": LINEAR,
    "nn.Linear": LINEAR,
    "Conv2d": rf"{NET}/conv1-Conv2d/.*|conv1\..*",
    "Block": rf"{NET}/layers-ModuleList/.*|layers\..*",
    "SGD": "Default/optimizer-SGD/.*",
    "fc1.weight": r"fc1\.weight",
    "bias": r".*\.bias",
    "Conv2D": CONV,
    "conv": CONV,
    "CONV": CONV,
    "F.conv2d": CONV,
    "aten.convolution": ".*/convolution-op0",
    "MatMul": MATMUL,
    "matmul": MATMUL,
    "F.linear": MATMUL,
    "BatchNorm": ".*/native_batch_norm(_backward)?-op0",
    "MaxPool": ".*/max_pool2d_with_indices(_backward)?-op0",
    "ReLU": rf"{NET}/relu-ReLU/.*",
    "torch.relu": ".*/(relu|threshold_backward)-op0",
    "Softmax": ".*/_softmax(_backward_data)?-op0",
    "softmax": ".*/_(log_)?softmax(_backward_data)?-op0",
    "GeLU": ".*/gelu(_backward)?-op0",
    "SparseSoftmaxCrossEntropyWithLogits": r".*/(_log_softmax|nll_loss)_?\w*-op0",
    "cross_entropy": r".*/(_log_softmax|nll_loss)_?\w*-op0",
    "name-regex(.*/fc1-Linear/(addmm|mm)-op0)": f"{NET}/fc1-Linear/(addmm|mm)-op0",
}
OBJECTS: dict[str, Callable[[Net], DumpTarget]] = {
    "fc1": lambda net: net.fc1,
    "layers.0.attn": lambda net: net.layers[0].attn,
    "Linear": lambda net: nn.Linear,
    "Block": lambda net: Block,
    "torch.relu": lambda net: torch.relu,
    "F.linear": lambda net: F.linear,
    "F.conv2d": lambda net: F.conv2d,
    "cross_entropy": lambda net: F.cross_entropy,
    "GeLU": lambda net: F.gelu,
    "Softmax": lambda net: torch.Tensor.softmax,
    "MaxPool": lambda net: F.max_pool2d,
    "BatchNorm": lambda net: F.batch_norm,
}


@pytest.fixture(autouse=True)
def _no_switches() -> Iterator[None]:
    attaching._SWITCHES.clear()
    yield
    attaching._SWITCHES.clear()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dump of everything."""
    path = tmp_path_factory.mktemp("whole")
    with attach(config_from_options(path, {}), starts_at_once=False):
        train()
    return path


def configured(tmp_path: Path, **common: object) -> CaptureConfig:
    """The configuration of a file; its dump goes to ``tmp_path / "out"``."""
    file = tmp_path / "dump.json"
    file.write_text(json.dumps(document(tmp_path, **common)))
    return load_config(file, {})


def dumped(path: Path) -> set[str]:
    return {record.key.op for record in Dump(path).tensors()}


def selected(whole: Path, pattern: str) -> set[str]:
    """What ``pattern`` should select."""
    found = {name for name in dumped(whole) if re.fullmatch(TABLE[pattern], name)}
    assert found
    return found


@pytest.mark.document(
    130,
    says='`kernels`: an operator type ("conv")',
    how="one pattern language everywhere: op types, MindSpore's operators, classes, modules "
    "([patterns.md](patterns.md))",
)
@pytest.mark.parametrize("pattern", TABLE)
def test_in_kernels(pattern: str, whole: Path, tmp_path: Path) -> None:
    with attach(configured(tmp_path, dump_mode=1, kernels=[pattern]), starts_at_once=False):
        train()
    assert dumped(tmp_path / "out") == selected(whole, pattern)


@pytest.mark.parametrize("pattern", TABLE)
def test_in_dump_ops(pattern: str, whole: Path, tmp_path: Path) -> None:
    with attach(config_from_options(tmp_path, {}, ops=[pattern]), starts_at_once=False):
        train()
    assert dumped(tmp_path) == selected(whole, pattern)


@pytest.mark.parametrize("pattern", TABLE)
def test_in_set_dump(pattern: str, whole: Path, tmp_path: Path) -> None:
    with attach(configured(tmp_path, dump_mode=2), starts_at_once=False):
        train(lambda net: sonde.set_dump(pattern))
    assert dumped(tmp_path / "out") == selected(whole, pattern)


@pytest.mark.document(
    117,
    says="`set_dump(target)`: a Cell or a Primitive",
    how="`sonde.set_dump` takes a module, a class of modules, a function of torch, a pattern",
)
@pytest.mark.parametrize("pattern", OBJECTS)
def test_as_an_object_in_set_dump(pattern: str, whole: Path, tmp_path: Path) -> None:
    with attach(configured(tmp_path, dump_mode=2), starts_at_once=False):
        train(lambda net: sonde.set_dump(OBJECTS[pattern](net)))
    assert dumped(tmp_path / "out") == selected(whole, pattern)


@pytest.mark.parametrize("pattern", TABLE)
def test_in_show(pattern: str, whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(whole), "--op", pattern, "--json"]) == 0
    shown = {each["op"] for each in json.loads(capsys.readouterr().out)["tensors"]}
    assert shown == selected(whole, pattern)


@pytest.mark.parametrize("pattern", TABLE)
def test_in_a_watchpoint(pattern: str, whole: Path) -> None:
    conditions = (ConditionSpec("tensor_too_large", {"max_gt": 1.0}),)
    (watch,) = make_watches([WatchpointSpec(1, "", conditions, (pattern,))], 0, ())
    nodes = [
        WatchedNode(node.name, node.type, node.scope, TENSOR, node.kind != "op")
        for node in Dump(whole).graph(0)
    ]
    watched = {node.name for node in nodes if watch.applies_to(node)} & dumped(whole)
    assert watched == selected(whole, pattern)


@pytest.mark.parametrize("pattern", TABLE)
def test_in_the_search_of_the_page(pattern: str, whole: Path) -> None:
    """A word also finds the names that contain it, since the user is typing."""
    index = GraphIndex(
        0, "Net", [wire_node(node, order) for order, node in enumerate(Dump(whole).graph(0))]
    )
    page = search(index, NodesQuery(query=pattern, limit=1000), {})
    found = {node.name for node in page.nodes}
    containing = {name for name in index.numbers if pattern.lower() in name.lower()}
    assert found & dumped(whole) == selected(whole, pattern) | (containing & dumped(whole))


def test_a_function_that_is_several_ops_is_refused_as_a_target() -> None:
    with pytest.raises(UsageError, match="multi_head_attention_forward is not one op"):
        sonde.set_dump(F.multi_head_attention_forward)
    with pytest.raises(UsageError, match="not builtin_function_or_method"):
        sonde.set_dump(len)
