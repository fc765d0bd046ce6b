"""How fast watch conditions are evaluated: gigabytes of tensors per second of one core.

    python benchmarks/conditions.py [--megabytes 704]

Each condition alone, and five together, on 44 float32 tensors with their previous values.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np

from sonde import kernels
from sonde.watch.conditions import (
    Condition,
    Needs,
    PreviousValue,
    measure,
    memory_of,
    parse_condition,
)

FIVE = {
    "overflow": ("tensor_overflow", {}),
    "unchanged": ("weight_not_changed", {}),
    "range": (
        "tensor_range",
        {"range_start_inclusive": -1, "range_end_inclusive": 0, "range_percentage_gt": 99.9},
    ),
    "abs-mean": ("tensor_too_large", {"abs_mean_gt": 1e6}),
    "all zero": ("tensor_all_zero", {}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=704)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    kernels.thread_limit(1)
    elements = options.megabytes * 250_000 // 44
    generator = np.random.default_rng(0)
    now = [generator.standard_normal(elements, np.float32) for _ in range(44)]
    before = [array * np.float32(1.01) for array in now]
    pairs = [(memory_of(a), PreviousValue(memory_of(b))) for a, b in zip(now, before, strict=True)]
    size = sum(array.nbytes for array in now)
    made = {name: parse_condition(id, given) for name, (id, given) in FIVE.items()}
    print(f"{size / 1e6:.0f} MB of float32 in 44 tensors, one core, path {kernels.current_path()}")
    for name, conditions in [*((n, [c]) for n, c in made.items()), ("all five", [*made.values()])]:
        seconds = statistics.median(judged(conditions, pairs) for _ in range(options.repeats))
        print(f"{name:10} {size / seconds / 1e9:6.2f} GB/s")


def judged(conditions: list[Condition], pairs: list[tuple[object, PreviousValue]]) -> float:
    """Processor seconds to evaluate every tensor."""
    needs = Needs()
    for condition in conditions:
        needs = needs | condition.needs
    start = time.thread_time()
    for memory, former in pairs:
        evidence = measure(memory, needs, former=former)  # type: ignore[arg-type]
        for condition in conditions:
            condition.judge(evidence)
    return time.thread_time() - start


if __name__ == "__main__":
    main()
