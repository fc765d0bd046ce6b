"""What the steps cost in which ops are learned, beside later ones.

    python benchmarks/first_step.py [--nets tiny gpt] [--repeats 5]

The first two steps of an observed training are learned: the second begins with the end of the
first, such as reading the loss, and so has ops in another order. Then steps are recognised. Printed
are multiples of the bare step, and, for the two steps that are learned, microseconds for each op
beyond one bare step. Processor time of the training thread; the best of the repeats.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

import torch
from nets import NETS, trainer
from overhead import VARIANTS

from sonde.dump.reader import Dump

_MODES = ("statistics: max min l2norm", "overflow watch")
_STEPS = 12


def step_seconds(net: str, mode: str, place: Path) -> list[float]:
    """Processor seconds of each step of a training that has just begun."""
    step = trainer(NETS[net]())
    for _ in range(2):  # Torch's own first calls.
        step()
    found = []
    with VARIANTS[mode](place):
        for _ in range(_STEPS):
            start = time.thread_time()
            step()
            found.append(time.thread_time() - start)
    return found


def ops_in(place: Path) -> int:
    """How many ops a step has, as the dump of statistics says."""
    graph = next(iter(Dump(next(place.rglob("rank_0"))).graphs()))
    return len(graph.ops)


def measure(net: str, mode: str, repeats: int) -> tuple[list[float], int]:
    """The quickest of each step, and the number of ops if the mode writes graphs, else 0."""
    runs, ops = [], 0
    for _ in range(repeats):
        place = Path(tempfile.mkdtemp(prefix="sonde-bench-"))
        try:
            runs.append(step_seconds(net, mode, place))
            ops = ops_in(place) if mode.startswith("statistics") else 0
        finally:
            shutil.rmtree(place, ignore_errors=True)
    return [min(each) for each in zip(*runs, strict=True)], ops


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nets", nargs="+", default=["tiny", "gpt"], choices=list(NETS))
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    titles = ("first", "second", "third", "later", "us an op", "")
    print(f"{'x of bare':32} {'net':8}" + "".join(f" {title:>9}" for title in titles))
    for net in options.nets:
        bare = min(measure(net, "bare", options.repeats)[0])
        ops = 0
        for mode in _MODES:
            seconds, counted = measure(net, mode, options.repeats)
            ops = counted or ops
            ratios = [*seconds[:3], min(seconds[3:])]
            learned = [(each - bare) / ops * 1e6 for each in seconds[:2]]
            print(
                f"{mode:32} {net:8}"
                + "".join(f" {each / bare:9.2f}" for each in ratios)
                + "".join(f" {each:9.0f}" for each in learned),
                flush=True,
            )


if __name__ == "__main__":
    main()
