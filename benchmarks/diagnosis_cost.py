"""What diagnosing costs: ratios to the bare training, taken in one run of about three minutes.

    python benchmarks/diagnosis_cost.py [--nets gpt resnet] [--repeats 2] [--steps 60]

Every repeat trains a fresh network bare and one diagnosed, from the first step on, which holds most
of what is measured and the probes. One torch thread; processor time of the training thread, which
other programs disturb least. ``first``: the ratio of the sums over all these steps, the best of the
repeats of each. ``later``: that of the median steps of the second half, which is what a long
training pays. The budget is for both.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import time
from collections.abc import Sequence

import torch
from nets import NETS, trainer

import sonde

BUDGET = 1.03


def timed(net: str, steps: int, *, is_diagnosed: bool) -> list[float]:
    """Processor seconds of each step."""
    step = trainer(NETS[net]())
    around = sonde.diagnose(prints=False) if is_diagnosed else contextlib.nullcontext()
    found = []
    with open(os.devnull, "w") as quiet, contextlib.redirect_stderr(quiet), around:
        for _ in range(steps):
            start = time.thread_time()
            step()
            found.append(time.thread_time() - start)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nets", nargs="+", default=["gpt", "resnet"], choices=list(NETS))
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'net':10} {'bare ms':>8} {'first':>8} {'later':>8} {'budget':>8}")
    for net in options.nets:
        timed(net, 3, is_diagnosed=True)
        rows = [
            [timed(net, options.steps, is_diagnosed=each) for each in (False, True)]
            for _ in range(options.repeats)
        ]
        bare, diagnosed = zip(*rows, strict=True)
        usual = _median_later(bare)
        first = min(map(sum, diagnosed)) / min(map(sum, bare))
        later = _median_later(diagnosed) / usual
        verdict = "kept" if max(first, later) <= BUDGET else "exceeded"
        print(
            f"{net:10} {usual * 1000:8.1f} {first:8.3f} {later:8.3f} {BUDGET:8.2f}  {verdict}",
            flush=True,
        )


def _median_later(repeats: Sequence[list[float]]) -> float:
    """The median of the steps in the second half of every repeat."""
    return statistics.median(each for steps in repeats for each in steps[len(steps) // 2 :])


if __name__ == "__main__":
    main()
