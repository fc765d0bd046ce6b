"""Replayed work is the same work; which way is faster mostly depends on the machine."""

import time
from typing import Any

import pytest
import torch
from tests.profile.made import node
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from sonde.profile.places import Places
from sonde.profile.record.object_tracking import LoaderParts, SeenCall, SeenOptimizer
from sonde.profile.record.stopwatch import best, compare
from sonde.profile.replay.batches import replay_batch
from sonde.profile.replay.loaders import replay_loader, slow_lines, worker_counts
from sonde.profile.replay.operators import replay_operator
from sonde.profile.replay.optimizers import replay_optimizer

CPU = torch.device("cpu")


def seen(kind: Any, count: int = 3, **options: Any) -> SeenOptimizer:
    optimizer = kind([nn.Parameter(torch.zeros(4))], **options)
    return SeenOptimizer(
        kind, dict(optimizer.defaults), (((4,), torch.float32, CPU),) * count, None
    )


def test_ways_take_turns_and_each_has_its_median() -> None:
    order: list[str] = []
    taken = compare(
        {"a": lambda: order.append("a"), "b": lambda: order.append("b")},
        budget_seconds=0,
    )
    assert order == ["a", "b"] * 4  # one round to warm up, three that count
    assert set(taken) == {"a", "b"}
    assert best(lambda: time.sleep(0.001), budget_seconds=0) >= 0.001


def test_an_optimizer_is_replayed_fused_and_grouped() -> None:
    assert set(replay_optimizer(seen(torch.optim.AdamW), budget_seconds=0)) == {
        "as it is",
        "fused=True",
        "foreach=True",
    }


def test_many_small_parameters_are_faster_fused() -> None:
    taken = replay_optimizer(seen(torch.optim.Adam, 200), budget_seconds=0.2)
    assert taken["fused=True"] < taken["as it is"]


def test_an_optimizer_that_is_fused_or_a_users_own_is_not_replayed() -> None:
    class Mine(torch.optim.SGD):
        pass

    assert replay_optimizer(seen(torch.optim.SGD, fused=True)) == {}
    assert replay_optimizer(seen(Mine)) == {}
    assert replay_optimizer(seen(torch.optim.LBFGS)) == {}


def test_a_larger_batch_is_replayed_on_a_copy_without_hooks() -> None:
    calls: list[int] = []
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    net.register_forward_hook(lambda *_: calls.append(1))
    before = {name: value.clone() for name, value in net.state_dict().items()}
    call = SeenCall(net, (torch.randn(2, 4),), False)
    state = torch.get_rng_state()
    result = replay_batch(call, 8, budget_seconds=0)
    assert torch.equal(torch.get_rng_state(), state)
    assert result is not None
    size, small, large = result
    assert (size, calls) == (2, [])
    assert small > 0
    assert large > 0
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert all(each.grad is None for each in net.parameters())


def test_a_module_that_cannot_be_replayed_is_skipped() -> None:
    class Odd(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError("only once")

    assert replay_batch(SeenCall(Odd(2, 2), (torch.ones(2, 2),), False), 8) is None
    assert replay_batch(SeenCall(nn.Linear(2, 2), ("text",), False), 8) is None


def product(dtype: str, size: int) -> Any:
    return node(
        "mm",
        "m",
        inputs=[("a", dtype, (size, size)), ("b", dtype, (size, size))],
        outputs=[(dtype, (size, size))],
    )


@pytest.mark.document(203)
@pytest.mark.document(202)
def test_products_are_replayed_in_float32_and_with_aligned_sizes() -> None:
    assert set(replay_operator(product("float64", 64), budget_seconds=0)) == {"as it is", "float32"}
    assert set(replay_operator(product("float32", 63), budget_seconds=0)) == {"as it is", "aligned"}
    assert replay_operator(product("float32", 64)) == {}
    assert replay_operator(product("int64", 63)) == {}
    assert replay_operator(node("relu", "r")) == {}


class Slow(Dataset[torch.Tensor]):
    def __init__(self, seconds: float = 0.004) -> None:
        self.seconds = seconds

    def __len__(self) -> int:
        return 400

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self.seconds)
        return torch.zeros(1)


@pytest.mark.timeout(300)
def test_more_workers_bring_batches_faster() -> None:
    loader = LoaderParts.of(DataLoader(Slow(0.02), batch_size=4))
    one = replay_loader(loader, 1, budget_seconds=0.4)
    three = replay_loader(loader, 3, budget_seconds=0.4)
    assert one is not None
    assert three is not None
    assert three < one


@pytest.mark.timeout(300)
def test_the_slow_line_of_a_dataset_is_found_in_a_child() -> None:
    places = Places(lambda file: file == __file__)
    loader = LoaderParts.of(DataLoader(Slow(), batch_size=4))
    lines = slow_lines(loader, places, budget_seconds=0.2)
    hottest = max(lines, key=lambda source: lines[source])
    assert hottest.code == "time.sleep(self.seconds)"
    assert lines[hottest] > 0.5


def _stacked_slowly(samples: list[Any]) -> torch.Tensor:
    time.sleep(0.004)
    return torch.stack([each[0] for each in samples])


@pytest.mark.timeout(300)
def test_the_slow_line_of_a_collate_function_is_found_and_no_other_line() -> None:
    places = Places(lambda file: file == __file__)
    data = TensorDataset(torch.ones(64, 2))
    loader = LoaderParts.of(DataLoader(data, batch_size=4, collate_fn=_stacked_slowly))
    lines = slow_lines(loader, places, budget_seconds=0.2)
    hottest = max(lines, key=lambda source: lines[source])
    assert hottest.code == "time.sleep(0.004)"
    assert {source.function for source in lines} <= {"_stacked_slowly", "<listcomp>"}


def test_streams_are_not_replayed() -> None:
    class Stream(IterableDataset[int]):
        def __iter__(self) -> Any:
            return iter(range(3))

    loader = LoaderParts.of(DataLoader(Stream()))
    assert replay_loader(loader, 2) is None
    assert slow_lines(loader, Places(lambda file: True)) == {}


def test_worker_counts_are_more_than_there_are() -> None:
    assert all(count > 1 for count in worker_counts(1))
    assert worker_counts(10_000) == []
