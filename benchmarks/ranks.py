"""What comparing ranks costs: ratios to the bare step of a DDP training on two processes.

    python benchmarks/ranks.py [--nets gpt resnet18] [--rounds 5] [--steps 30]

Both processes run rounds of bare and compared steps in turn, with one torch thread each, and wait
for each other in every step. Printed are medians of rank 0 over rounds, of the mean over the steps
after the first five, which are all compared: the wall time, and the processor time of the training
thread. The server runs beside them and needs a core of its own
for the wall time to mean something.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from nets import NETS
from torch.nn.parallel import DistributedDataParallel

from sonde.adapters.torch.ranks.checking import check_ranks
from sonde.ranks.options import FIRST_STEPS, RankOptions

BUDGET = 1.03


def _train(net: str, rounds: int, steps: int) -> None:
    """The work of one rank; rank 0 prints the ratios."""
    torch.set_num_threads(1)
    module, (inputs, targets), loss = NETS[net]()
    model = DistributedDataParallel(module)
    times: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for number in range(2 * rounds + 1):
        is_compared = bool(number % 2)
        with (
            open(os.devnull, "w") as quiet,
            contextlib.redirect_stderr(quiet),
            check_ranks(RankOptions()) if is_compared else contextlib.nullcontext(),
        ):
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
            rows = []
            for _ in range(steps):
                start, worked = time.perf_counter(), time.thread_time()
                optimizer.zero_grad()
                loss(model(inputs), targets).backward()
                optimizer.step()
                rows.append((time.perf_counter() - start, time.thread_time() - worked))
        if number:  # The first round warms up.
            later = rows[FIRST_STEPS:]
            times[is_compared].append(
                (statistics.mean(r[0] for r in later), statistics.mean(r[1] for r in later))
            )
    if dist.get_rank() == 0:
        bare, compared = (
            [statistics.median(column) for column in zip(*times[each], strict=True)]
            for each in (False, True)
        )
        wall, own = compared[0] / bare[0], compared[1] / bare[1]
        print(
            f"{net}: bare step {bare[0] * 1e3:.1f} ms; compared {wall:.3f} wall, {own:.3f} own "
            f"time; budget {BUDGET}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nets", nargs="+", default=["gpt", "resnet18"], choices=list(NETS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--store", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank is not None:
        store = dist.FileStore(options.store, 2)
        dist.init_process_group("gloo", store=store, rank=options.rank, world_size=2)
        for net in options.nets:
            _train(net, options.rounds, options.steps)
        dist.destroy_process_group()
        return
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, __file__, "--store", str(Path(place) / "store"), *sys.argv[1:]]
        ranks = [subprocess.Popen([*command, "--rank", str(rank)]) for rank in range(2)]
        codes = [each.wait() for each in ranks]
    sys.exit(max(map(abs, codes)))


if __name__ == "__main__":
    main()
