"""Compares, checks and judges one dump in one process, in a pool, and on a local Ray.

    python benchmarks/workers.py [--steps 12] [--ranks 2] [--elements 2000000] [--workers 2]

Writes two dumps of a network of linear layers, then prints a table: seconds of each command for
each place, whether its output is the same byte for byte as that of one process, and the bytes and
seconds of one step of one rank, from which docs/scale.md computes. Without Ray its column is left
out.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import pickle
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sonde.compare.options import CompareOptions
from sonde.compare.runs.compare import RunWork
from sonde.compare.runs.step_work import StepWork, prepare_step
from sonde.dump.reader import Dump

_REPEATS = 10
PROGRAM = """
import os, sys, torch
from torch import nn
torch.manual_seed(0)
width = int((int(sys.argv[1]) / 4) ** 0.5)
net = nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(width, width), nn.Tanh())))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(int(sys.argv[2])):
    optimizer.zero_grad()
    net(torch.randn(64, width)).square().mean().backward()
    optimizer.step()
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--elements", type=int, default=2_000_000, help="weights of the network")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        dumps = write_dumps(Path(place), arguments)
        size = sum(each.stat().st_size for each in dumps[0].rglob("*") if each.is_file())
        pairs = arguments.steps * arguments.ranks
        print(f"two dumps of {pairs} (step, rank) pairs, {size / pairs / 1e6:.1f} MB each pair")
        places = {
            "one process": ("--workers", "1"),
            f"pool of {arguments.workers}": ("--workers", str(arguments.workers)),
        }
        if importlib.util.find_spec("ray") is not None:
            places[f"Ray of {arguments.workers}"] = (
                *("--ray", "local", "--workers", str(arguments.workers)),
            )
        print(f"{'':14}" + "".join(f"{name:>24}" for name in places))
        commands = {
            "compare": ["compare", *map(str, dumps), "--threads", "1", "--json"],
            "view --check": ["view", "--check", "--json", str(dumps[0])],
            "ranks": ["ranks", "--json", str(dumps[0])],
        }
        for name, words in commands.items():
            measure(name, words, places, pairs)
        print_shares(dumps)


def write_dumps(place: Path, arguments: argparse.Namespace) -> list[Path]:
    script = place / "program.py"
    script.write_text(PROGRAM)
    for name in ("a", "b"):
        for rank in range(arguments.ranks):
            words = [sys.executable, "-m", "sonde", "run", "--dump-to", str(place / name)]
            words += ["--net-name", "net", str(script), str(arguments.elements)]
            environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(arguments.ranks)}
            subprocess.run(
                [*words, str(arguments.steps)], env=environment, check=True, capture_output=True
            )
    return [place / "a", place / "b"]


def measure(name: str, words: list[str], places: dict[str, tuple[str, ...]], pairs: int) -> None:
    cells = []
    first = b""
    for number, options in enumerate(places.values()):
        start = time.perf_counter()
        every = [sys.executable, "-m", "sonde", *words, *options]
        done = subprocess.run(every, capture_output=True)
        seconds = time.perf_counter() - start
        assert done.returncode in (0, 1), done.stderr.decode()
        first = done.stdout if number == 0 else first
        same = "" if number == 0 else ", same" if done.stdout == first else ", DIFFERENT"
        cells.append(f"{seconds:.1f} s{same}")
        if number == 0:
            per_pair = f"{seconds / pairs * 1000:.0f} ms per (step, rank)"
    print(f"{name:14}" + "".join(f"{cell:>24}" for cell in cells) + f"   {per_pair}")


def print_shares(dumps: list[Path]) -> None:
    """Processor time of one pair of `compare` in a worker, and what is left for the command."""
    a, b = map(Dump, dumps)
    step, work = a.steps()[0], RunWork(a, b, CompareOptions())
    seconds = [0.0, 0.0]
    for _ in range(_REPEATS):
        start = time.process_time()
        prepared = prepare_step(a, b, StepWork(step, a.ranks[0], threads=1))
        seconds[0] += time.process_time() - start
        sent = pickle.dumps(prepared)
        start = time.process_time()
        work.assess(pickle.loads(sent))
        seconds[1] += time.process_time() - start
    ops = len(prepared.found.a.ops)
    there, here = (each / _REPEATS * 1000 for each in seconds)
    print(
        f"compare, {ops} ops: {there:.0f} ms in a worker, {len(sent) / 1e3:.0f} kB sent, "
        f"{here:.0f} ms in the command ({here / ops:.2f} ms per op)"
    )


if __name__ == "__main__":
    main()
