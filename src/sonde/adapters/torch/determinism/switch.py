"""Removes the randomness of a torch program as far as possible, and reports what is left.

Removed are: random seeds of Python, numpy, torch and, through torch's, of DataLoader workers;
algorithms that may add in another order; generators that the program leaves unseeded or seeds from
the clock; on request, shuffling and dropout. Randomness that cannot be removed is detected and
reported at the end: operators without a deterministic version, the operating system's random
numbers, hash order.
"""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch

from sonde.adapters.torch.determinism import MAX_SEED, Determinism
from sonde.adapters.torch.determinism.random_sources import watch_sources
from sonde.adapters.torch.determinism.randomness import Randomness, place_of_caller
from sonde.adapters.torch.determinism.shuffle_dropout import stop_dropout, stop_shuffling
from sonde.core.errors import UsageError

_WARNING = "does not have a deterministic implementation"
_CUBLAS = "CUBLAS_WORKSPACE_CONFIG"


def set_seed(seed: int) -> None:
    """Seed Python's, numpy's and torch's generators; DataLoader workers follow torch's.

    ``seed`` is a whole number from 0 to 2**32 - 1. Generators made by the program itself
    (``numpy.random.default_rng()``, ``torch.Generator()``) are seeded where they are made.
    """
    is_whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
    if not is_whole or not 0 <= seed <= MAX_SEED:
        raise UsageError(
            f"a seed must be a whole number from 0 to {MAX_SEED} (got {seed!r})", slug="seed"
        )
    seed = int(seed)
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


@contextmanager
def deterministic(wanted: Determinism, say: Callable[[str], None]) -> Iterator[Randomness]:
    """Run the block without randomness; at its end ``say`` gets the lines of `report`.

    Everything is restored afterwards except the states of the generators.
    """
    found = Randomness()
    with ExitStack() as undo:
        _use_deterministic_algorithms(undo)
        _collect_warnings(found, undo)
        set_seed(wanted.seed)
        watch_sources(wanted.seed, found, undo)
        if wanted.no_shuffle:
            stop_shuffling(found, undo)
        if wanted.no_dropout:
            stop_dropout(found, undo)
        try:
            yield found
        finally:
            if not found.notes.is_forked:
                found.gather()
                for line in report(wanted, found):
                    say(line)
            found.notes.close()


def report(wanted: Determinism, found: Randomness) -> list[str]:
    """The lines about what was removed and what is left."""
    done = [f"seed {wanted.seed} for Python, numpy, torch and DataLoader workers"]
    done += ["deterministic algorithms"]
    done += ["no shuffling"] if wanted.no_shuffle else []
    done += ["no dropout"] if wanted.no_dropout else []
    lines = [f"deterministic: {', '.join(done)}"]
    lines += [f"removed: {_counted(what, count)}" for what, count in found.removed.items()]
    left = dict(found.left)
    if os.environ.get("PYTHONHASHSEED", "random") == "random":
        left["the order of sets of texts (set PYTHONHASHSEED=0 before Python starts)"] = 1
    lines += [f"not removed: {_counted(what, count)}" for what, count in left.items()]
    if not left:
        lines.append("nothing random was seen that is not removed")
    threads = torch.get_num_threads()
    if threads > 1:
        lines.append(f"sums over {threads} threads repeat only with as many: keep OMP_NUM_THREADS")
    return lines


def _counted(what: str, count: int) -> str:
    return what if count == 1 else f"{what}, {count:,} times"


def _use_deterministic_algorithms(undo: ExitStack) -> None:
    before = torch.are_deterministic_algorithms_enabled()
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    undo.callback(torch.use_deterministic_algorithms, before, warn_only=warns)
    torch.use_deterministic_algorithms(True, warn_only=True)
    cudnn: Any = torch.backends.cudnn
    for name, value in (("benchmark", False), ("deterministic", True)):
        undo.callback(setattr, cudnn, name, getattr(cudnn, name))
        setattr(cudnn, name, value)
    if _CUBLAS not in os.environ:
        os.environ[_CUBLAS] = ":4096:8"
        undo.callback(os.environ.pop, _CUBLAS, None)


def _collect_warnings(found: Randomness, undo: ExitStack) -> None:
    """Collect torch's warnings about nondeterministic operators for the report."""
    undo.enter_context(warnings.catch_warnings())
    warnings.filterwarnings("always", message=f".*{_WARNING}.*")
    show = warnings.showwarning

    def collect(message: Any, category: Any, *place: Any, **more: Any) -> None:
        text = str(message)
        if _WARNING not in text:
            show(message, category, *place, **more)
            return
        where = place_of_caller()
        name = text.partition(" ")[0]
        found.note_left(f"{name} has no deterministic version{f', at {where}' if where else ''}")

    warnings.showwarning = collect
