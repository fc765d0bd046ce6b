"""Seeds the sources of random numbers that a seed set at the start does not reach.

Generators that are made without a seed, or seeded from the clock, get a seed that depends only on
the order of the calls. The operating system's random numbers are only reported: programs use them
for secrets and names.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from sonde.adapters.torch.determinism.randomness import Randomness, place_of_caller
from sonde.adapters.torch.eager.naming.source_lines import is_user_file
from sonde.adapters.torch.private import frames_from
from sonde.core.files import atomic_file
from sonde.core.patching import call_before, wrap

_CLOCK_SECONDS = 3600.0
_LEAST_CLOCK = 10**8


def watch_sources(seed: int, found: Randomness, undo: ExitStack) -> None:
    """Replace the functions of the random modules until ``undo`` is closed."""
    watch = _Watch(seed, found)
    for owner, name, make in (
        (random.Random, "seed", watch.python_method),
        (random, "seed", partial(watch.seeded, "random", "a")),
        (np.random, "seed", partial(watch.seeded, "numpy.random", "seed")),
        (np.random, "default_rng", partial(watch.seeded, "numpy.random.default_rng", "seed")),
        # Without a seed torch.manual_seed raises: 0 is not replaced.
        (torch, "manual_seed", partial(watch.seeded, "torch", "seed", default=0)),
        (torch, "seed", watch.torch_unseeded),
    ):
        wrap(owner, name, make, undo)
    call_before(os, "urandom", watch.operating_system, undo)
    call_before(random, "_urandom", watch.operating_system, undo)
    call_before(DataLoader, "__iter__", watch.workers, undo)


def is_clock(value: object) -> bool:
    """Whether a seed is the time of day, in any unit, whole or cut to 32 bits.

    Small numbers are not: people write them, and the time cut to 32 bits equals them now and then.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer):
        return False
    if value < _LEAST_CLOCK:
        return False
    now = time.time()
    for scale in (1.0, 1e3, 1e6, 1e9):
        exact = int(now * scale)
        span = _CLOCK_SECONDS * scale
        if abs(float(value) - exact) < span:
            return True
        if scale == 1e3 and abs(float(value) - exact % 2**32) < span:
            return True
    return False


class _Watch:
    def __init__(self, seed: int, found: Randomness) -> None:
        self._found = found
        # Seeds for unseeded generators: different per call, the same in every run.
        self._seeds = ((seed + 0x9E3779B1 * number) % 2**32 for number in count(1))

    def _is_foreign(self, what: str, value: object) -> bool:
        """Whether user code seeds with nothing or with the clock; reports it if so."""
        if value is not None and not is_clock(value):
            return False
        where = place_of_caller()
        if where is None:
            return False
        how = "without a seed" if value is None else "seeded from the clock"
        self._found.note_removed(f"{what} {how} at {where}")
        return True

    def python_method(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def seed(generator: random.Random, a: Any = None, *more: Any, **named: Any) -> Any:
            foreign = not isinstance(generator, random.SystemRandom) and not _is_bookkeeping()
            if foreign and self._is_foreign("random.Random", a):
                a = next(self._seeds)
            return original(generator, a, *more, **named)

        return seed

    def seeded(
        self, what: str, name: str, original: Callable[..., Any], *, default: object = None
    ) -> Callable[..., Any]:
        """A function like ``original`` whose first argument, ``name``, is a seed."""

        def seed(*args: Any, **named: Any) -> Any:
            given = args[0] if args else named.get(name)
            if self._is_foreign(what, default if given is None else given):
                named.pop(name, None)
                args = (next(self._seeds), *args[1:])
            return original(*args, **named)

        return seed

    def torch_unseeded(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def seed() -> int:
            if self._is_foreign("torch", None):
                chosen = next(self._seeds)
                torch.manual_seed(chosen)
                return chosen
            return int(original())

        return seed

    def operating_system(self, _: int) -> None:
        where = place_of_caller()
        if where is not None and "site-packages" not in where and not _is_bookkeeping():
            self._found.note_left(
                f"random numbers of the operating system at {where} (os.urandom, uuid, secrets, "
                "or a numpy generator without a seed)"
            )

    def workers(self, loader: Any) -> None:
        """Report workers that are not forked: they start a new Python without these patches."""
        if loader.num_workers > 0:
            context = loader.multiprocessing_context or multiprocessing
            method = context.get_start_method()
            if method != "fork":
                at = place_of_caller()
                self._found.note_left(
                    f"what is random in the workers of a DataLoader that start by {method}"
                    f"{f', at {at}' if at else ''}: they are not watched"
                )


def _is_bookkeeping() -> bool:
    """Whether Python or Sonde draws: names of temporary files must differ between programs, and
    ``multiprocessing`` draws keys for authentication."""
    for frame in frames_from(sys._getframe(2)):
        name = str(frame.f_globals.get("__name__"))
        if is_user_file(frame.f_code.co_filename):
            return False
        if name in ("tempfile", atomic_file.__name__) or name.startswith("multiprocessing."):
            return True
    return False
