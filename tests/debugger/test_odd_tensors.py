"""Tensors without plain statistics: what can be judged of them is, and nothing is harmed."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import msgspec
import pytest
import torch
from tests.debugger.driving import driven
from tests.debugger.hub import Hub, RankConnection, watchpoint
from torch import nn

from sonde.wire.shapes import Hit, WatchpointSpec


def found(training: Callable[[], object], *specs: WatchpointSpec) -> list[Hit]:
    never = tuple(msgspec.structs.replace(spec, break_after=0) for spec in specs)
    _, rank = driven(training, lambda rank: None, hub=Hub(paused=False, watchpoints=never))
    return rank.hits


class Spectrum(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.filter = nn.Parameter(torch.ones(4, dtype=torch.complex64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.fft.fft(x) * self.filter


def test_complex_tensors_overflow_and_are_undecided_otherwise() -> None:
    def training() -> None:
        net = Spectrum()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(3):
            optimizer.zero_grad()
            data = torch.ones(4)
            data[0] = torch.nan if step == 2 else 1.0
            net(data).abs().sum().backward()
            optimizer.step()

    hits = found(
        training,
        watchpoint(1, "tensor_overflow"),
        watchpoint(2, "gradient_exploding"),
        watchpoint(3, "weight_overflow"),
        watchpoint(4, "tensor_too_large", "_fft_r2c", max_gt=0.0),
    )
    spectrum = next(hit for hit in hits if hit.op.endswith("_fft_r2c-op0") and hit.watchpoint == 1)
    assert (spectrum.step, spectrum.verdict, spectrum.part) == (2, "hit", "carrier")
    assert [(value.name, value.actual) for value in spectrum.values] == [("non_finite_count", 4)]
    assert [hit.op for hit in hits if hit.watchpoint == 2] == ["filter.grad"]
    assert [(hit.op, hit.step) for hit in hits if hit.watchpoint == 3] == [("filter", 3)]
    assert {(hit.verdict, hit.why) for hit in hits if hit.watchpoint == 4} == {
        ("undecided", "complex64 values have no order")
    }


def test_nan_in_a_sparse_gradient_is_a_hit() -> None:
    def training() -> None:
        net = nn.Embedding(5, 2, sparse=True)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(3):
            optimizer.zero_grad()
            (net(torch.tensor([1, 2])).sum() * (torch.nan if step == 1 else 1.0)).backward()
            optimizer.step()

    hits = found(
        training,
        watchpoint(1, "gradient_exploding"),
        watchpoint(2, "gradient_vanishing", abs_mean_lt=1.0),
        watchpoint(3, "tensor_overflow"),
    )
    assert [(hit.step, hit.op) for hit in hits if hit.watchpoint == 1] == [(1, "weight.grad")]
    assert {hit.why for hit in hits if hit.watchpoint == 2} == {"its layout is sparse_coo"}
    made = [hit for hit in hits if hit.watchpoint == 3 and "sparse_coo" in hit.op and hit.step == 1]
    assert {hit.part for hit in made} == {"carrier"}


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested_tensors_are_undecided_and_switch_nothing_off(
    layout: torch.layout, capfd: pytest.CaptureFixture[str]
) -> None:
    net = nn.Linear(3, 2)

    def training() -> list[float]:
        torch.manual_seed(0)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        losses = []
        for _ in range(3):
            optimizer.zero_grad()
            rows = [torch.ones(2, 3), torch.ones(1, 3)]
            nested = torch.nested.nested_tensor(rows, layout=layout)
            loss = torch.nested.to_padded_tensor(net(nested), 0.0).sum()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    specs = (
        watchpoint(1, "tensor_too_large", max_gt=1e9),
        watchpoint(2, "tensor_overflow"),
        watchpoint(3, "gradient_exploding"),
    )

    def person(rank: RankConnection) -> None:
        pass

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        losses, rank = driven(training, person, hub=Hub(paused=False, watchpoints=specs))
    assert losses == [step.point.loss for step in rank.steps]
    assert {hit.verdict for hit in rank.hits} <= {"undecided"}
    assert "switched off" not in capfd.readouterr().err


def test_statistics_of_a_step_long_past_are_not_the_step_before() -> None:
    spec = watchpoint(1, "expression", "fc.weight.grad", expression="l2norm >= 0 * prev.l2norm")
    steps: list[int] = []

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(2, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.fc(x)
            return result

    def training() -> None:
        net = Net()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(12):
            optimizer.zero_grad()
            net(torch.ones(1, 2)).sum().backward()
            optimizer.step()

    def person(rank: RankConnection) -> None:
        rank.paused()
        rank.watch(spec)
        rank.control("continue")
        steps.append(rank.paused().step)
        rank.watch(msgspec.structs.replace(spec, enabled=False))
        rank.control("step", steps=5)
        rank.paused()
        rank.watch(spec)
        rank.control("continue")
        steps.append(rank.paused().step)
        rank.control("terminate")

    driven(training, person)
    assert steps == [1, 7]  # not 6, the first step after the gap
