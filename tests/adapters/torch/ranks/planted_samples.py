"""Which samples each rank reads in an epoch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from tests.adapters.torch.ranks.planted import Fault, Training, net
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Subset, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def _data(seed: int = 0, samples: int = 64, kinds: int = 10**6) -> TensorDataset:
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(min(samples, kinds), 8, generator=random)
    x = x[torch.arange(samples) % len(x)]
    return TensorDataset(x, torch.randint(0, 4, (samples,), generator=random))


def _train(loader: DataLoader[Any], epochs: int = 2, held_out: Iterable[Any] = ()) -> None:
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(epochs):
        if isinstance(loader.sampler, DistributedSampler):
            loader.sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss = cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        for x, _ in held_out:
            with torch.no_grad():
                model.module(x)


def each_rank_shuffles_all(rank: int, world: int) -> None:
    shuffle = torch.Generator().manual_seed(rank)
    _train(DataLoader(_data(), batch_size=16, shuffle=True, generator=shuffle))


def sampler_for_one_rank(rank: int, world: int) -> None:
    """The arguments of the sampler are those of one process; the seed is that of the rank."""
    data = _data()
    sampler = DistributedSampler(data, num_replicas=1, rank=0, seed=rank)
    _train(DataLoader(data, batch_size=8, sampler=sampler))


def distributed_sampler(rank: int, world: int) -> None:
    """In the second epoch a rank gets samples that the other had in the first."""
    data = _data(samples=127)
    loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data))
    _train(loader, held_out=DataLoader(_data(9), batch_size=16))


def own_parts(rank: int, world: int) -> None:
    """The indexes of the samplers are the same, the samples are not."""
    part = Subset(_data(samples=128), list(range(rank, 128, world)))
    _train(DataLoader(part, batch_size=8, shuffle=True))


def few_kinds_of_samples(rank: int, world: int) -> None:
    data = _data(samples=256, kinds=20)
    _train(DataLoader(data, batch_size=16, sampler=DistributedSampler(data)))


FAULTS = {
    name: Fault(
        training,
        "same-samples-on-ranks",
        (0, 1),
        code="loss.backward()",
        text="ranks 0 and 1 read the same samples in epoch 0",
    )
    for name, training in (
        ("each_rank_shuffles_all", each_rank_shuffles_all),
        ("sampler_for_one_rank", sampler_for_one_rank),
    )
}
CONTROLS: dict[str, Training] = {
    each.__name__: each for each in (distributed_sampler, own_parts, few_kinds_of_samples)
}
