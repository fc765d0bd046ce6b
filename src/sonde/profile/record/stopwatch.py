"""Times alternative ways of doing the same work, on a machine with other load."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping

AS_IT_IS = "as it is"
"""The name of the way that the program uses now."""

Work = Callable[[], object]


def compare(
    ways: Mapping[str, Work], *, budget_seconds: float, most_rounds: int = 30
) -> dict[str, float]:
    """The median seconds of each way."""
    taken = _time_rounds(ways, budget_seconds, most_rounds)
    return {name: statistics.median(times) for name, times in taken.items()}


def best(work: Work, *, budget_seconds: float, most_rounds: int = 200) -> float:
    """The shortest of many runs: the speed of the machine without other load."""
    return min(_time_rounds({"": work}, budget_seconds, most_rounds)[""])


def fastest_alternative(taken: Mapping[str, float]) -> str:
    """The fastest way other than the present one."""
    return min((way for way in taken if way != AS_IT_IS), key=taken.__getitem__)


def _time_rounds(
    ways: Mapping[str, Work], budget_seconds: float, most_rounds: int
) -> dict[str, list[float]]:
    """The seconds of each way in rounds that run every way once.

    Alternating makes other load affect all ways alike. A first round warms up and is not counted;
    at least three are, then as many as fit into the budget.
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
    return taken
