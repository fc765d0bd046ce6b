"""Ops are paired by their computation and inputs, whatever their names are."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.compare.runs.planted import dumped
from torch import nn
from torch.nn import functional

from sonde.compare.runs.compare import compare
from sonde.compare.runs.result import RunComparison


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.q = nn.Linear(8, 8)
        self.k = nn.Linear(8, 8)
        self.ln = nn.LayerNorm(8)
        self.out = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.relu(self.conv(x)).mean((2, 3))
        q, k = self.q(y), self.k(y)
        return self.out(self.ln(torch.tanh(q) * k))


class Stem(nn.Module):
    def __init__(self, convolution: nn.Module) -> None:
        super().__init__()
        self.inner = convolution

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.inner(x)).mean((2, 3))


class Rewritten(nn.Module):
    """The same arithmetic: other names and nesting, branches in another order, a linear layer in
    two ops and, if wanted, a layer norm in many."""

    def __init__(self, plain: Plain, variant: str) -> None:
        super().__init__()
        self.variant = variant
        self.stem = Stem(plain.conv)
        self.key, self.query = plain.k, plain.q
        self.norm, self.head = plain.ln, plain.out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.stem(x)
        k = y @ self.key.weight.t() + self.key.bias
        z = k * torch.tanh(self.query(y))
        if self.variant == "fault":
            z = z * 1.0001
        if self.variant != "decomposed":
            return self.head(self.norm(z))
        mean = z.mean(-1, keepdim=True)
        variance = ((z - mean) ** 2).mean(-1, keepdim=True)
        z = (z - mean) / torch.sqrt(variance + 1e-5)
        return self.head(z * self.norm.weight + self.norm.bias)


def training(variant: str) -> Callable[[], None]:
    torch.manual_seed(0)
    x, target = torch.randn(4, 3, 12, 12), torch.randint(0, 5, (4,))
    plain = Plain()
    net: nn.Module = plain if variant in ("", "channels last") else Rewritten(plain, variant)
    if variant == "channels last":
        net = net.to(memory_format=torch.channels_last)
        x = x.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def train() -> None:
        for _ in range(2):
            optimizer.zero_grad()
            functional.cross_entropy(net(x), target).backward()
            optimizer.step()

    return train


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunComparison]:
    torch.set_num_threads(1)
    place = tmp_path_factory.mktemp("pairing")
    plain = dumped(place / "plain", training(""))
    return {
        variant: compare(plain, dumped(place / variant.replace(" ", "_"), training(variant)))
        for variant in ("rewritten", "fault", "decomposed", "channels last")
    }


def test_renamed_and_reordered_modules_are_paired_and_equal(
    found: dict[str, RunComparison],
) -> None:
    here = found["rewritten"]
    assert here.verdict == "aligned"
    twins = {pair.a: pair.b for pair in here.pairs if pair.step == 0}
    assert twins["q.weight"] == "query.weight"
    assert twins["k.weight"] == "key.weight"
    assert twins["Default/network-Plain/q-Linear/addmm-op0"] == (
        "Default/network-Rewritten/query-Linear/addmm-op0"
    )
    assert twins["Default/network-Plain/k-Linear/addmm-op0"] == "Default/network-Rewritten/add-op0"
    assert {pair.status for pair in here.pairs} <= {"equal", "not dumped", "within"}
    left = {each.reason for each in here.unpaired}
    assert left == {"only passes values on"}


def test_a_linear_layer_in_two_ops_is_one_pair(found: dict[str, RunComparison]) -> None:
    pair = next(
        each
        for each in found["rewritten"].pairs
        if each.a == "Default/network-Plain/k-Linear/addmm-op0"
    )
    assert pair.members_b == ("Default/network-Rewritten/mm-op0",)
    assert pair.error < 1e-6


def test_optimizer_state_follows_its_parameter(found: dict[str, RunComparison]) -> None:
    twins = {pair.a: pair.b for pair in found["rewritten"].pairs if pair.step == 1}
    assert twins["momentum_buffer.q.weight"] == "momentum_buffer.query.weight"
    assert twins["momentum_buffer.k.bias"] == "momentum_buffer.key.bias"


def test_an_added_op_is_found_between_renamed_ones(found: dict[str, RunComparison]) -> None:
    first = found["fault"].first_divergence
    assert first is not None
    assert (first.pair.a, first.pair.b) == (
        "Default/network-Plain/mul-op0",
        "Default/network-Rewritten/mul-op1",
    )
    assert "missing or added" in first.cause


def test_a_norm_in_many_ops_is_aligned_with_the_one(found: dict[str, RunComparison]) -> None:
    here = found["decomposed"]
    assert here.verdict == "aligned"
    norm = next(
        pair for pair in here.pairs if pair.a.endswith("native_layer_norm-op0") and pair.step == 0
    )
    assert norm.b == "Default/network-Rewritten/add-op2"
    assert len(norm.members_b) >= 6


def test_another_memory_format_is_no_difference(found: dict[str, RunComparison]) -> None:
    assert found["channels last"].verdict == "aligned"


@pytest.mark.document(
    80,
    says="using numpy to construct the input data to ensure the same inputs to the networks",
    how="`torch.from_numpy`; `sonde compare` looks at the inputs first and says if the data differ",
)
def test_different_data_are_reported_as_such(tmp_path: Path) -> None:
    def train(seed: int) -> Callable[[], None]:
        torch.manual_seed(0)
        net = nn.Linear(4, 2)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        x = torch.randn(3, 4, generator=torch.Generator().manual_seed(seed))

        def run() -> None:
            net(x).sum().backward()
            optimizer.step()

        return run

    here = compare(dumped(tmp_path / "a", train(1)), dumped(tmp_path / "b", train(2)))
    assert here.verdict == "diverged"
    assert here.first_divergence is not None
    assert here.first_divergence.pair.a == "Default/network-Linear/addmm-op0"
    assert "not the same data" in here.first_divergence.cause


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 6)
        self.lstm = nn.LSTM(6, 8, batch_first=True)
        self.head = nn.Linear(8, 10)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(self.embedding(tokens))[0]).flatten(0, 1)


def recurrent_training(*, fused: bool, foreach: bool) -> Callable[[], None]:
    torch.manual_seed(0)
    net, tokens = Recurrent(), torch.randint(0, 10, (3, 5))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, foreach=foreach)

    def train() -> None:
        before = torch._C._get_mkldnn_enabled()
        torch._C._set_mkldnn_enabled(fused)
        try:
            for _ in range(2):
                optimizer.zero_grad()
                functional.cross_entropy(net(tokens), tokens.flatten()).backward()
                optimizer.step()
        finally:
            torch._C._set_mkldnn_enabled(before)

    return train


def test_a_fused_lstm_and_its_many_ops_are_aligned(tmp_path: Path) -> None:
    fused = dumped(tmp_path / "fused", recurrent_training(fused=True, foreach=False))
    many = dumped(tmp_path / "many", recurrent_training(fused=False, foreach=False))
    here = compare(many, fused)
    assert (here.verdict, here.first_divergence) == ("aligned", None)
    twins = {pair.a: pair.b for pair in here.pairs if pair.step == 0}
    loss = "Default/nll_loss_forward-op0"
    assert twins[loss] == loss
    assert twins["lstm.weight_ih_l0"] == "lstm.weight_ih_l0"


def test_an_optimizer_that_takes_all_parameters_at_once_is_compared_by_its_results(
    tmp_path: Path,
) -> None:
    single = dumped(tmp_path / "single", recurrent_training(fused=False, foreach=False))
    at_once = dumped(tmp_path / "at_once", recurrent_training(fused=False, foreach=True))
    here = compare(single, at_once)
    assert here.verdict == "aligned"
    updates = [pair for pair in here.pairs if pair.how == "update" and pair.step == 0]
    assert {tensor.a.parameter for pair in updates for tensor in pair.tensors} >= {
        "embedding.weight",
        "lstm.weight_ih_l0",
        "head.bias",
    }
    assert {pair.status for pair in updates} <= {"equal", "within"}
