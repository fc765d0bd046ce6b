"""Runs a function on pieces of work, in the place that the user chose, with results in order.

A function runs in another process, perhaps on another machine: it is one of a module, and reads
what it needs from files that all machines have. A piece of work whose process was killed is run
once more; if that process is killed too, the work fails with one line.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from sonde.core.errors import SondeError

T = TypeVar("T")


class WorkerError(SondeError):
    """Work that could not be done by other processes."""


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """``workers``: how many processes; None for one per core, if the work is worth starting them.
    ``ray``: the address of a Ray cluster, ``auto``, or ``local`` for a new one on this machine."""

    workers: int | None = None
    ray: str | None = None

    @property
    def count(self) -> int:
        return self.workers or os.cpu_count() or 1

    @property
    def is_chosen(self) -> bool:
        """Whether the user asked for other processes."""
        return self.ray is not None or (self.workers or 0) > 1

    @property
    def is_alone(self) -> bool:
        """Whether all work is done in this process."""
        return self.ray is None and self.count == 1


@dataclass(frozen=True, slots=True)
class Work(Generic[T]):
    """A call of ``function`` with ``arguments``; ``name`` is for messages: ``step 3, rank 1``."""

    name: str
    function: Callable[..., T]
    arguments: Sequence[object]

    def run(self) -> T:
        return self.function(*self.arguments)


def run_work(work: Iterable[Work[T]], options: WorkerOptions) -> Iterator[T]:
    """The results of all pieces of work, in their order. Errors that a function raises are raised
    here. WorkerError if a process was killed twice at the same work, or Ray cannot be used."""
    if options.ray is not None:
        from sonde.workers.ray_cluster import run_on_ray

        yield from run_on_ray(work, options.ray, options.workers)
    elif options.is_alone:
        yield from (each.run() for each in work)
    else:
        from sonde.workers.processes import run_in_processes

        yield from run_in_processes(work, options.count)
