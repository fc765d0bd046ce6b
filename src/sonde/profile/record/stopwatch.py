"""Timing two or more ways of doing the same work on a machine that others use too."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping

Work = Callable[[], object]


def compare(
    ways: Mapping[str, Work], *, budget_seconds: float, most_rounds: int = 30
) -> dict[str, float]:
    """The median seconds of each way, from rounds in which each has its turn.

    Taking turns makes a busy moment of the machine hit all alike. A first round warms up and does
    not count; there are at least three, then as many as the budget allows.
    """
    for work in ways.values():
        work()
    taken: dict[str, list[float]] = {name: [] for name in ways}
    collects = gc.isenabled()
    gc.disable()
    begin = time.perf_counter()
    try:
        for index in range(most_rounds):
            if index >= 3 and time.perf_counter() - begin > budget_seconds:
                break
            for name, work in ways.items():
                start = time.perf_counter()
                work()
                taken[name].append(time.perf_counter() - start)
    finally:
        if collects:
            gc.enable()
    return {name: statistics.median(times) for name, times in taken.items()}


def best(work: Work, *, budget_seconds: float, most_rounds: int = 200) -> float:
    """The shortest of many runs: the speed of the undisturbed machine."""
    work()
    shortest = float("inf")
    begin = time.perf_counter()
    for index in range(most_rounds):
        if index >= 3 and time.perf_counter() - begin > budget_seconds:
            break
        start = time.perf_counter()
        work()
        shortest = min(shortest, time.perf_counter() - start)
    return shortest
