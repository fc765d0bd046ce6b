"""What comparing ranks costs: ratios to the bare step of a training on two processes.

    python benchmarks/ranks.py [--nets gpt resnet] [--layout ddp|fsdp] [--rounds 3] [--steps 15]

Both processes run rounds of bare and compared steps in turn, with one torch thread each, and wait
for each other in every step. Of each round the mean over the steps after the first five counts,
which are all compared. Printed is the median over pairs of a bare and a compared round, which run
one after the other: of the wall time of rank 0, and of the processor time of both processes
together, with all their threads. The server runs beside them, and needs a core of its own for the
wall time to mean something; on a loaded machine the processor time does.
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
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from sonde.adapters.torch.ranks.checking import check_ranks
from sonde.ranks.options import FIRST_STEPS, RankOptions

BUDGET = 1.03


def _round(model: torch.nn.Module, net: str, steps: int, *, is_compared: bool) -> tuple[float, ...]:
    """The wall time and the processor time of a step after the first five."""
    _, (inputs, targets), loss = NETS[net]()
    with (
        open(os.devnull, "w") as quiet,
        contextlib.redirect_stderr(quiet),
        check_ranks(RankOptions()) if is_compared else contextlib.nullcontext(),
    ):
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        began = worked = 0.0
        for number in range(steps):
            if number == FIRST_STEPS:
                began, worked = time.perf_counter(), time.process_time()
            optimizer.zero_grad()
            loss(model(inputs), targets).backward()
            optimizer.step()
        count = steps - FIRST_STEPS
        return (time.perf_counter() - began) / count, (time.process_time() - worked) / count


def _laid_out(net: str, layout: str) -> torch.nn.Module:
    model = NETS[net]()[0]
    if layout == "ddp":
        return DistributedDataParallel(model)
    for block in getattr(model, "blocks", ()):
        fully_shard(block)
    fully_shard(model)
    return model


def _train(net: str, layout: str, rounds: int, steps: int) -> None:
    """The work of one rank; rank 0 prints a row of the table."""
    torch.set_num_threads(1)
    model = _laid_out(net, layout)
    pairs = []
    for number in range(rounds + 1):
        pair = [_round(model, net, steps, is_compared=each) for each in (False, True)]
        if number:  # The first round warms up.
            pairs.append(pair)
    found: list[list[list[tuple[float, ...]]]] = [[] for _ in range(2)]
    dist.all_gather_object(found, pairs)
    if dist.get_rank() == 0:
        wall = [compared[0] / bare[0] for bare, compared in found[0]]
        work = [
            sum(rank[number][1][1] for rank in found) / sum(rank[number][0][1] for rank in found)
            for number in range(rounds)
        ]
        step = statistics.median(bare[0] for bare, _ in found[0])
        spread = f"{min(work):.3f}-{max(work):.3f}"
        print(
            f"{net:<10} {step * 1e3:>9.1f} ms {statistics.median(wall):>8.3f} "
            f"{statistics.median(work):>8.3f} {spread:>14} {BUDGET:>7}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nets", nargs="+", default=["gpt"], choices=list(NETS))
    parser.add_argument("--layout", default="ddp", choices=["ddp", "fsdp"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--store", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank is not None:
        store = dist.FileStore(options.store, 2)
        dist.init_process_group("gloo", store=store, rank=options.rank, world_size=2)
        for net in options.nets:
            _train(net, options.layout, options.rounds, options.steps)
        dist.destroy_process_group()
        return
    print(f"{'net':<10} {'bare step':>12} {'wall':>8} {'work':>8} {'spread':>14} {'budget':>7}")
    sys.stdout.flush()
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, __file__, "--store", str(Path(place) / "store"), *sys.argv[1:]]
        ranks = [subprocess.Popen([*command, "--rank", str(rank)]) for rank in range(2)]
        codes = [each.wait() for each in ranks]
    sys.exit(max(map(abs, codes)))


if __name__ == "__main__":
    main()
