"""Tensors without plain statistics are evaluated as far as possible, without failures."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import msgspec
import numpy as np
import pytest
import torch
from tests.debugger.driving import driven
from tests.debugger.hub import Hub, RankConnection, watchpoint
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

from sonde.adapters.torch.debugging.trainee import TorchTrainee
from sonde.adapters.torch.tensors.view import TorchView
from sonde.watch.conditions import Memory, Needs, measure, parse_condition
from sonde.wire.shapes import Hit, WatchpointSpec

_TRAINEE = TorchTrainee()


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
    (gradient,) = (hit for hit in hits if hit.watchpoint == 1)
    assert (gradient.step, gradient.op, gradient.part) == (1, "weight.grad", "carrier")
    assert gradient.origin == "Gradients/Default/mul-op0"
    assert {(hit.step, hit.verdict, hit.why) for hit in hits if hit.watchpoint == 2} == {
        (0, "hit", ""),
        (1, "undecided", "the tensor has 4 NaN among 10 elements"),
        (2, "hit", ""),
    }
    made = [hit for hit in hits if hit.watchpoint == 3 and "sparse_coo" in hit.op and hit.step == 1]
    assert {hit.part for hit in made} == {"carrier"}


LAYOUTS = [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.strided, torch.jagged]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_sparse_and_nested_tensors_are_judged_by_all_their_elements(
    layout: torch.layout, dtype: torch.dtype
) -> None:
    torch.manual_seed(3)
    rows = torch.randn(6, 5, dtype=torch.float64).to(dtype)
    rows[rows.abs() < 0.8] = 0
    if layout in (torch.strided, torch.jagged):
        parts = [rows[:2], rows[2:]]
        odd = torch.nested.nested_tensor(parts, layout=layout)
    else:
        odd = rows.to_sparse(layout=layout)
    truth = rows.double().numpy()

    memory = _TRAINEE.memory(TorchView(odd))
    assert isinstance(memory, Memory)
    bounds = frozenset({(-1.0, 0.5), (0.9, 2.0)})
    evidence = measure(memory, Needs(statistics=True, between=bounds))
    found = evidence.statistics
    assert found is not None
    assert (found.count, found.zero_count) == (truth.size, int((truth == 0).sum()))
    assert (found.max, found.min) == (truth.max(), truth.min())
    assert found.avg == pytest.approx(truth.mean(), rel=1e-12)
    assert found.abs_mean == pytest.approx(np.abs(truth).mean(), rel=1e-12)
    assert found.std == pytest.approx(truth.std(), rel=1e-12)
    assert found.l2norm == pytest.approx(np.linalg.norm(truth), rel=1e-12)
    for (low, high), count in evidence.between.items():
        assert count == int(((truth >= low) & (truth <= high)).sum())


def test_duplicate_entries_of_a_sparse_tensor_are_summed() -> None:
    places, values = torch.tensor([[1, 1, 3]]), torch.tensor([4.0, -4.0, 2.0])
    odd = torch.sparse_coo_tensor(places, values, (5,), check_invariants=True)
    memory = _TRAINEE.memory(TorchView(odd))
    assert isinstance(memory, Memory)
    found = memory.summarize()
    assert (found.count, found.zero_count, found.max, found.min) == (5, 4, 2.0, 0)


def test_a_sparse_tensor_that_stores_nothing_is_all_zero() -> None:
    odd = torch.zeros(2, 3).to_sparse()
    memory = _TRAINEE.memory(TorchView(odd))
    assert isinstance(memory, Memory)
    judged = parse_condition("tensor_all_zero").judge(measure(memory, Needs(statistics=True)))
    assert judged.verdict == "hit"


def test_a_nested_view_of_a_part_of_its_memory_is_undecided() -> None:
    whole = torch.nested.nested_tensor([torch.ones(4, 2), torch.ones(4, 2)], layout=torch.jagged)
    rows, lengths = whole.values().view(2, 4, 2), torch.tensor([2, 3])
    part = torch.nested.narrow(rows, 1, torch.tensor([1, 0]), lengths, layout=torch.jagged)
    found = _TRAINEE.memory(TorchView(part))
    assert isinstance(found, str)


class _Wrapper(torch.Tensor):
    """Has another tensor, and no memory; what it says to be its address is none."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> _Wrapper:
        made: _Wrapper = torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, inner.stride(), storage_offset=8, dtype=inner.dtype
        )
        return made

    @classmethod
    def __torch_dispatch__(cls, func: object, *_: object) -> object:
        raise NotImplementedError(func)


def test_a_wrapper_without_memory_is_not_read() -> None:
    view = TorchView(_Wrapper(torch.ones(4)))
    assert view.tensor.data_ptr() > 0
    assert view.problem == "_Wrapper has no memory of its own"
    assert view.non_finite() == 0
    assert _TRAINEE.memory(view) == view.problem


def test_a_rank_evaluates_its_own_part_of_a_distributed_tensor() -> None:
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,))
        data = torch.arange(8.0).reshape(4, 2)
        whole = distribute_tensor(data, mesh, [Shard(0)])
        for tensor, truth in ((whole, data), (whole[1:], data[1:])):
            view = TorchView(tensor)
            memory = _TRAINEE.memory(view)
            assert isinstance(memory, Memory)
            found = memory.summarize()
            assert (found.count, found.max, found.min) == (truth.numel(), 7.0, truth.min())
            assert view.non_finite() == 0
    finally:
        torch.distributed.destroy_process_group()


def test_an_unreadable_tensor_is_reported_once() -> None:
    net = nn.Linear(2, 2)

    def training() -> None:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            lengths = torch.tensor([2, 3])
            part = torch.nested.narrow(
                torch.ones(2, 4, 2), 1, torch.tensor([1, 0]), lengths, layout=torch.jagged
            )
            (net(torch.ones(2)).sum() + part.unsqueeze(-1).size(0)).backward()
            optimizer.step()

    specs = (watchpoint(1, "tensor_overflow"), watchpoint(2, "tensor_too_large", max_gt=1e9))
    hits = found(training, *specs)
    told = sorted(
        (hit.watchpoint, hit.verdict) for hit in hits if hit.why == "its layout is jagged"
    )
    assert told == [(1, "undecided"), (2, "undecided")]


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nan_in_a_nested_tensor_is_a_hit(layout: torch.layout) -> None:
    net = nn.Linear(3, 2)

    def training() -> None:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(3):
            optimizer.zero_grad()
            rows = [torch.ones(2, 3), torch.ones(1, 3)]
            nested = torch.nested.nested_tensor(rows, layout=layout)
            found = net(nested) * (torch.nan if step == 2 else 1.0)
            torch.nested.to_padded_tensor(found, 0.0).sum().backward()
            optimizer.step()

    hits = found(training, watchpoint(1, "tensor_overflow"), watchpoint(2, "tensor_all_zero"))
    first = next(hit for hit in hits if hit.verdict == "hit" and hit.watchpoint == 1)
    assert (first.step, first.part, first.op.rpartition("/")[2]) == (2, "producer", "mul-op0")


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested_tensors_do_not_disable_the_debugger(
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
    assert {hit.verdict for hit in rank.hits} <= {"undecided"}, rank.hits
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
