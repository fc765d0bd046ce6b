"""Runs a DataLoader with more workers, and finds the slow lines of its dataset.

Everything runs in child processes: the program's own objects are not changed.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import threading
import time
import warnings
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

from sonde.core.graph import Source
from sonde.profile.places import Places
from sonde.profile.record.object_tracking import LoaderParts
from sonde.profile.record.sampler import Sampler, shares

_TIMEOUT_SECONDS = 30
_MOST_BATCHES = 40


def worker_counts(workers: int) -> list[int]:
    """Numbers of workers to compare with the present one."""
    cores = os.cpu_count() or 1
    return sorted({count for count in (cores, 2 * cores) if count > workers})


def replay_loader(
    loader: LoaderParts, workers: int, *, budget_seconds: float = 1.5
) -> float | None:
    """Seconds between batches if ``workers`` load and the consumer is fast; None if unknown.

    Batches that the workers prepared before the first request are not counted.
    """
    if not _can_replay(loader):
        return None
    arrivals: list[float] = []
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # more workers than cores are intended
        begin = time.perf_counter()
        with contextlib.suppress(RuntimeError):  # a worker that fails or takes too long
            for _ in itertools.islice(_with_workers(loader, workers), _MOST_BATCHES):
                arrivals.append(time.perf_counter())
                if arrivals[-1] - begin > budget_seconds and len(arrivals) > 2 * workers:
                    break
    steady = arrivals[workers - 1 :] if len(arrivals) > 2 * workers else arrivals
    if len(steady) < 3:
        return None
    return (steady[-1] - steady[0]) / (len(steady) - 1)


def slow_lines(
    loader: LoaderParts, places: Places, *, budget_seconds: float = 1.0
) -> dict[Source, float]:
    """The lines that a worker executes while it makes batches, as shares of its time."""
    if not _can_replay(loader):
        return {}
    receive, send = multiprocessing.Pipe(duplex=False)
    # A forked child has the dataset in its present state, and ends without the parent's clean-up.
    process = multiprocessing.get_context("fork").Process(
        target=_sample_batches, args=(loader, _some_requests(loader), places, send, budget_seconds)
    )
    process.daemon = True
    process.start()
    send.close()
    lines: dict[Source, float] = {}
    with contextlib.suppress(EOFError):
        if receive.poll(budget_seconds + _TIMEOUT_SECONDS):
            lines = receive.recv()
    process.join(timeout=1)
    if process.is_alive():
        process.kill()
    return lines


def _sample_batches(
    loader: LoaderParts,
    requests: list[Any],
    places: Places,
    send: Connection,
    budget_seconds: float,
) -> None:
    torch.set_num_threads(1)

    def work() -> None:
        sampler = Sampler(places)
        sampler.start()
        begin = time.perf_counter()
        for request in itertools.cycle(requests):
            _make_batch(loader, request)
            if time.perf_counter() - begin > budget_seconds:
                break
        sampler.stop()
        send.send(shares(sampler.samples, "loop"))

    # In a new thread, because the forked stack contains lines of the program, too.
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def _make_batch(loader: LoaderParts, request: Any) -> Any:
    """Do what a worker does with one item of the (batch) sampler."""
    dataset: Any = loader.dataset
    if loader.batch_sampler is None:
        return loader.collate_fn(dataset[request])
    many = getattr(dataset, "__getitems__", None)
    return loader.collate_fn(many(request) if many else [dataset[index] for index in request])


def _some_requests(loader: LoaderParts) -> list[Any]:
    with torch.random.fork_rng(devices=[]):
        if loader.batch_sampler is None:
            return list(itertools.islice(iter(loader.sampler), 64))
        return list(itertools.islice(iter(loader.batch_sampler), 4))


def _with_workers(loader: LoaderParts, workers: int) -> DataLoader[Any]:
    how: dict[str, Any] = (
        {"batch_size": None, "sampler": loader.sampler}
        if loader.batch_sampler is None
        else {"batch_sampler": loader.batch_sampler}
    )
    return DataLoader(
        loader.dataset,
        **how,
        num_workers=workers,
        collate_fn=loader.collate_fn,
        worker_init_fn=loader.worker_init_fn,
        multiprocessing_context="fork",
        timeout=_TIMEOUT_SECONDS,
    )


def _can_replay(loader: LoaderParts) -> bool:
    can_fork = "fork" in multiprocessing.get_all_start_methods()
    return can_fork and not isinstance(loader.dataset, IterableDataset)
