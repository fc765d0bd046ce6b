"""Runs work on a Ray cluster (``pip install 'sonde[ray]'``), which needs Sonde and the dumps, at
the same paths, on all its machines."""

from __future__ import annotations

import logging
import os
import socket
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final, TypeVar

from sonde.core.errors import UsageError
from sonde.workers.run import Work, WorkerError

T = TypeVar("T")

LOCAL: Final = "local"
_AHEAD: Final = 2
_RETRIES: Final = 1
_CONNECT_SECONDS: Final = 10.0


def run_on_ray(work: Iterable[Work[T]], address: str, count: int | None) -> Iterator[T]:
    """The results in order. ``count`` limits the work that runs at a time; with the address
    ``local`` it is the number of processes that are started."""
    ray = _import_ray()
    is_ours = not ray.is_initialized()
    if is_ours:
        _connect(ray, address, count)
    try:
        width = count or max(int(ray.cluster_resources().get("CPU", 1)), 1)
        yield from _results(ray, work, width)
    finally:
        if is_ours:
            ray.shutdown()


def _import_ray() -> Any:
    try:
        import ray  # type: ignore[import-not-found, unused-ignore]
    except ModuleNotFoundError:
        raise UsageError(
            "--ray needs Ray, which is not installed: pip install 'sonde[ray]'", slug="no-ray"
        ) from None
    return ray


def _check_reachable(address: str) -> None:
    """Raise WorkerError if nothing answers at the address: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if address in (LOCAL, "auto"):
        return
    if not host or not port.isdigit():
        raise UsageError(
            f"--ray {address}: write HOST:PORT, ray://HOST:PORT, auto or local", slug="ray-address"
        )
    try:
        socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise WorkerError(
            f"--ray {address}: nothing answers there: {error}", slug="ray-address"
        ) from None


def _connect(ray: Any, address: str, count: int | None) -> None:
    _check_reachable(address)
    quiet = {"logging_level": logging.ERROR, "log_to_driver": False}
    # Ray would start a process that reports usage, and change what the workers see of the machine.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        if address == LOCAL:
            cores = count or os.cpu_count() or 1
            ray.init(address=LOCAL, num_cpus=cores, include_dashboard=False, **quiet)
        else:
            ray.init(address=address, **quiet)
    except Exception as error:  # Ray raises many kinds.
        reason = "".join(str(error).strip().splitlines()[:1]) or type(error).__name__
        raise WorkerError(
            f"--ray {address}: no Ray cluster can be reached: {reason}", slug="ray-address"
        ) from None


def _results(ray: Any, work: Iterable[Work[T]], width: int) -> Iterator[T]:
    remote = ray.remote(num_cpus=1, max_retries=_RETRIES)(_call)
    rest = iter(work)
    waiting: deque[tuple[Work[T], Any]] = deque()
    while True:
        for each in islice(rest, _AHEAD * width - len(waiting)):
            waiting.append((each, remote.remote(each)))
        if not waiting:
            return
        first, result = waiting.popleft()
        try:
            yield ray.get(result)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.RayError as error:
            raise WorkerError(
                f"{first.name}: the worker process of Ray was lost twice ({type(error).__name__}); "
                "it may lack memory, or the dump is not on that machine",
                slug="worker-failed",
            ) from None


def _call(work: Work[T]) -> T:
    return work.run()
