"""What diagnosing costs: ratios to the bare training, taken in one run.

    python benchmarks/diagnosis_cost.py [--nets gpt resnet] [--repeats 5] [--steps 60]

Every repeat trains a fresh network bare and one diagnosed, from the first step on, which holds most
of what is measured and the probes. One torch thread; processor time of the training thread, which
other programs disturb least. ``whole``: the ratio of the sums over all steps, best of the repeats
of each. ``median``: the ratio of the median steps.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import time

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
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'net':8} {'whole':>8} {'median':>8}   budget {BUDGET}")
    for net in options.nets:
        timed(net, 3, is_diagnosed=True)
        rows = [
            [timed(net, options.steps, is_diagnosed=each) for each in (False, True)]
            for _ in range(options.repeats)
        ]
        bare, diagnosed = zip(*rows, strict=True)
        whole = min(map(sum, diagnosed)) / min(map(sum, bare))
        middle = statistics.median(x for row in diagnosed for x in row) / statistics.median(
            x for row in bare for x in row
        )
        print(f"{net:8} {whole:8.3f} {middle:8.3f}", flush=True)


if __name__ == "__main__":
    main()
