"""Collectives and messages that lose something on their way, and trainings that use them all."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from tests.adapters.torch.ranks.planted import Fault, Training, average, batches, net
from torch.nn.functional import cross_entropy

Exchange = Callable[[int, int, torch.Tensor], None]


def _train(rank: int, world: int, exchange: Exchange) -> None:
    """Train, and let the ranks exchange rows of numbers in each step."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in batches(rank, 4):
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        average(model)
        exchange(rank, world, x.clone())
        optimizer.step()


@contextmanager
def _faulty(method: str, *, is_bad: bool, is_async: bool) -> Iterator[None]:
    """The network card of a rank: what it gets has one element that is wrong. A collective that
    is not asynchronous is not waited for again: gloo would write the result a second time."""
    original: Any = getattr(dist.ProcessGroup, method)
    own = vars(dist.ProcessGroup)[method]

    def call(group: Any, *args: Any, **kwargs: Any) -> Any:
        work = original(group, *args, **kwargs)
        work.wait()
        found = args[0]
        while isinstance(found, (list, tuple)):
            found = found[-1]
        found.view(-1)[0] += 3.0
        return work if is_async else None

    if is_bad:
        setattr(dist.ProcessGroup, method, call)
    try:
        yield
    finally:
        setattr(dist.ProcessGroup, method, own)


def _reduce(rank: int, world: int, x: torch.Tensor) -> None:
    dist.reduce(x, 1)


def _reduce_scatter(rank: int, world: int, x: torch.Tensor) -> None:
    dist.reduce_scatter(torch.empty(3), [torch.full((3,), float(rank))] * world)


def _reduce_scatter_tensor(rank: int, world: int, x: torch.Tensor) -> None:
    dist.reduce_scatter_tensor(torch.empty(16 // world, 8), x)


def _gather(rank: int, world: int, x: torch.Tensor) -> None:
    dist.gather(x, [torch.empty_like(x) for _ in range(world)] if rank == 1 else None, dst=1)


def _scatter(rank: int, world: int, x: torch.Tensor) -> None:
    dist.scatter(torch.empty(16, 8), [x + n for n in range(world)] if rank == 0 else None)


def _all_to_all(rank: int, world: int, x: torch.Tensor) -> None:
    rows = list(x.chunk(world))
    dist.all_to_all([torch.empty_like(each) for each in rows], rows)


def _async_all_reduce(rank: int, world: int, x: torch.Tensor) -> None:
    dist.all_reduce(x, async_op=True).wait()


def _async_all_gather(rank: int, world: int, x: torch.Tensor) -> None:
    work = dist.all_gather([torch.empty_like(x) for _ in range(world)], x, None, True)
    work.wait()


def _send(rank: int, world: int, x: torch.Tensor) -> None:
    if rank == 0:
        dist.send(x, 1)
    elif rank == 1:
        dist.recv(x, 0)


def _isend(rank: int, world: int, x: torch.Tensor) -> None:
    """A ring, each rank sends to the next."""
    got = torch.empty_like(x)
    works = [dist.irecv(got, (rank - 1) % world), dist.isend(x, (rank + 1) % world)]
    for each in works:
        assert each is not None
        each.wait()


def _batch(rank: int, world: int, x: torch.Tensor) -> None:
    got = torch.empty(x.numel())
    listed = [
        dist.P2POp(dist.isend, x, (rank + 1) % world),
        dist.P2POp(dist.irecv, got, (rank - 1) % world),
    ]
    for each in dist.batch_isend_irecv(listed):
        each.wait()


def _from_any(rank: int, world: int, x: torch.Tensor) -> None:
    if rank == 0:
        for _ in range(world - 1):
            dist.recv(x)
    else:
        dist.send(x, 0)


def _objects(rank: int, world: int, x: torch.Tensor) -> None:
    dist.gather_object(rank, [None] * world if rank == 0 else None)
    dist.scatter_object_list([None], [1, "two", *range(world)][:world] if rank == 0 else None)
    dist.broadcast_object_list([{"a": 1}])


_EXCHANGES: dict[str, tuple[Exchange, str, int]] = {
    "reduce": (_reduce, "reduce", 1),
    "reduce_scatter": (_reduce_scatter, "reduce_scatter", 0),
    "reduce_scatter_tensor": (_reduce_scatter_tensor, "reduce_scatter_single", 1),
    "gather": (_gather, "gather", 1),
    "scatter": (_scatter, "scatter", 1),
    "all_to_all": (_all_to_all, "alltoall", 0),
    "async_all_reduce": (_async_all_reduce, "allreduce", 1),
    "async_all_gather": (_async_all_gather, "allgather", 0),
}
"""The exchange, the method of the process group that is wrong, and the rank on which it is."""


def _lossy(rank: int, world: int, x: torch.Tensor, name: str) -> None:
    exchange, method, bad = _EXCHANGES[name]
    with _faulty(method, is_bad=rank == bad, is_async=name.startswith("async")):
        exchange(rank, world, x)


def _lossy_training(name: str) -> Training:
    def training(rank: int, world: int) -> None:
        _train(rank, world, partial(_lossy, name=name))

    return training


def _overwritten(rank: int, world: int, *, is_batch: bool) -> None:
    """What is sent is overwritten before it has left; it is larger than what a socket takes."""
    store = dist.distributed_c10d._get_default_store()
    steps = iter(range(100))

    def exchange(rank: int, world: int, x: torch.Tensor) -> None:
        rows, key = torch.full((1 << 23,), float(rank)), f"overwritten {next(steps)}"
        if rank == 0:
            send = dist.P2POp(dist.isend, rows, 1)
            work = dist.batch_isend_irecv([send])[0] if is_batch else dist.isend(rows, 1)
            rows.fill_(7.0)
            store.set(key, "yes")
            assert work is not None
            work.wait()
        else:
            store.wait([key])
            if is_batch:
                (work,) = dist.batch_isend_irecv([dist.P2POp(dist.irecv, rows, 0)])
                work.wait()
            else:
                dist.recv(rows, 0)
        dist.barrier()
        if rank == 0:
            store.delete_key(key)

    _train(rank, world, exchange)


def overwritten_while_it_is_sent(rank: int, world: int) -> None:
    _overwritten(rank, world, is_batch=False)


def overwritten_while_a_batch_is_sent(rank: int, world: int) -> None:
    _overwritten(rank, world, is_batch=True)


def all_exchanges(rank: int, world: int) -> None:
    exchanges = [each for each, _, _ in _EXCHANGES.values()]
    messages = (_send, _isend, _batch, _from_any)

    def exchange(rank: int, world: int, x: torch.Tensor) -> None:
        for each in (*exchanges, *messages, _objects):
            each(rank, world, copy.deepcopy(x))

    _train(rank, world, exchange)


FAULTS = {
    f"lossy_{name}": Fault(
        _lossy_training(name), "collective-result-wrong", (bad,), code="dist.", text="in step 0"
    )
    for name, (_, _, bad) in _EXCHANGES.items()
} | {
    "overwritten_while_it_is_sent": Fault(
        overwritten_while_it_is_sent,
        "collective-result-wrong",
        (1,),
        code="dist.isend(rows, 1)",
        text="what rank 0 sent at",
    ),
    "overwritten_while_a_batch_is_sent": Fault(
        overwritten_while_a_batch_is_sent,
        "collective-result-wrong",
        (1,),
        code="dist.batch_isend_irecv",
        text="what rank 0 sent at",
    ),
}
CONTROLS: dict[str, Training] = {"all_exchanges": all_exchanges}
CONTROLS_OF_FOUR: dict[str, Training] = {"all_exchanges_of_four": all_exchanges}
