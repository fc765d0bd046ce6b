"""What a dump of captured steps costs, beside a full dump: ratios to the bare step, and bytes.

    python benchmarks/step_dump.py [--nets gpt resnet] [--repeats 5]

Variants are interleaved, one torch thread, medians: the wall time of a step, and the training
thread's processor time, which other programs disturb least. The full dump writes gigabytes per
step, so it has two steps only, and the second is measured, once. Then a step of the dump is
computed: the time for it includes the start of a process. Takes about two minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from nets import NETS, trainer

from sonde.adapters.torch.step_dump.dumping import start_capture
from sonde.capture.options import config_from_options
from sonde.dump.reader import Dump

BUDGET = {"gpt": 1.10, "resnet": 1.05}
SIZE_BUDGET = {"gpt": 0.1}
REPEATED = ("bare", "captured steps")
FULL = "full dump"
# The first steps are learned, and memory for the copy of a step is taken in the first.
_LEARNING_STEPS = 2
_STEPS = 3


@dataclass(slots=True)
class Cost:
    """Seconds and processor seconds of each step, bytes on the disk of one, seconds to read one."""

    times: list[tuple[float, float]] = field(default_factory=list)
    nbytes: float = 0.0
    reading: float = 0.0

    def ratios(self, bare: Cost) -> tuple[float, float]:
        own, other = (
            [statistics.median(column) for column in zip(*each.times, strict=True)]
            for each in (self, bare)
        )
        return own[0] / other[0], own[1] / other[1]


def _capture(name: str, place: Path) -> contextlib.AbstractContextManager[object]:
    if name == "bare":
        return contextlib.nullcontext()
    as_steps = name != FULL
    steps = "all" if as_steps else f"{_LEARNING_STEPS - 1}-{_LEARNING_STEPS}"
    config = config_from_options(place, os.environ, as_steps=as_steps, steps=steps)
    return start_capture(config, starts_at_once=False)


def _run(step: Callable[[], float], name: str, cost: Cost, *, reads: bool) -> None:
    place = Path(tempfile.mkdtemp(prefix="sonde-bench-"))
    try:
        with open(os.devnull, "w") as quiet, contextlib.redirect_stderr(quiet):
            with _capture(name, place / "dump"):
                steps = 1 if name == FULL else _STEPS
                for number in range(_LEARNING_STEPS + steps):
                    start, worked = time.perf_counter(), time.thread_time()
                    step()
                    taken = time.perf_counter() - start, time.thread_time() - worked
                    cost.times += [taken] if number >= _LEARNING_STEPS else []
            if name != "bare":
                files = [each for each in (place / "dump").rglob("*") if each.is_file()]
                total = sum(each.stat().st_size for each in files)
                cost.nbytes = total / (2 if name == FULL else _LEARNING_STEPS + _STEPS)
            if reads:
                start = time.perf_counter()
                assert any(True for _ in Dump(place / "dump").tensors(step=1))
                cost.reading = time.perf_counter() - start
    finally:
        shutil.rmtree(place, ignore_errors=True)


def measure(net: str, repeats: int) -> dict[str, Cost]:
    """The costs of each variant, measured in turn."""
    step = trainer(NETS[net]())
    for _ in range(3):
        step()
    costs = {name: Cost() for name in REPEATED}
    for repeat in range(repeats):
        for name, cost in costs.items():
            _run(step, name, cost, reads=name == "captured steps" and repeat == repeats - 1)
    costs[FULL] = Cost()
    _run(step, FULL, costs[FULL], reads=False)
    return costs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nets", nargs="+", default=["gpt", "resnet"], choices=list(NETS))
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    heads = f"{'step':>7} {'own time':>9} {'MB a step':>10} {'of full':>8}"
    print(f"{'x of bare':16} {'net':8} {heads}")
    for net in options.nets:
        costs = measure(net, options.repeats)
        full = costs[FULL].nbytes
        for name, cost in costs.items():
            wall, own = cost.ratios(costs["bare"])
            size = f"{cost.nbytes / 1e6:10.1f} {cost.nbytes / full:8.3f}"
            print(f"{name:16} {net:8} {wall:7.3f} {own:9.3f} {size}", flush=True)
        kept = costs["captured steps"]
        print(_verdict(net, kept.ratios(costs["bare"])[1], kept.nbytes / full), flush=True)
        print(f"one step of {net} computed in {kept.reading:.1f} s", flush=True)


def _verdict(net: str, own: float, share: float) -> str:
    """The budgets, and whether they are kept."""
    found = [("own time", own, BUDGET.get(net)), ("bytes of full", share, SIZE_BUDGET.get(net))]
    return "; ".join(
        f"{name} {value:.3f} of at most {budget}: {'kept' if value <= budget else 'NOT KEPT'}"
        for name, value, budget in found
        if budget is not None
    )


if __name__ == "__main__":
    main()
