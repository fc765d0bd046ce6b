"""The comparison of two runs: the kernel, the whole command, and msprobe's beside it.

    python benchmarks/compare.py [--net gpt] [--msprobe PYTHON]

1. The kernel: all distances of two tensors far beyond the caches, one thread, its own processor
   time, GB of input (both sides) per second.
2. The command: two runs of one step of a network, one with a weight scaled by 1.001, dumped and
   compared; processor seconds of the whole process per GB of both dumps on disk, and
   its peak memory. Files are read once before, so that no disk is measured.
3. With ``--msprobe``, a Python that has mindstudio-probe (``pip install torch==2.13.0
   mindstudio-probe`` in an environment of its own): the same two runs dumped by it (task tensor,
   level L1), converted tensor by tensor into dumps of Sonde's, and each compared by its own tool:
   as many tensors, with the same bytes. Each runs three times, in turns; medians.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from msprobe_compare import convert

from sonde import kernels

Cost = tuple[float, float, float]
"""Bytes, processor seconds, peak memory in MB."""
HERE = Path(__file__).parent
TRAIN = """
import sys
sys.path.insert(0, {here!r})
import torch
from nets import NETS
torch.set_num_threads(1)
module, (inputs, targets), loss_function = NETS[{net!r}]()
with torch.no_grad():
    weights = [each for each in module.parameters() if each.dim() > 1]
    weights[len(weights) // 2].mul_({scale})
optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4)
loss_function(module(inputs), targets).backward()
optimizer.step()
"""


def kernel_rates(elements: int, repeats: int) -> None:
    print(f"{'kernel, ' + kernels.current_path():24}{'GB/s of input':>14}")
    for name in ("float32", "float64", "float16", "int32"):
        rng = np.random.default_rng(0)
        sides = [rng.standard_normal(elements, np.float32) for _ in range(4)]
        arrays = [(100 * side).astype(name) for side in sides]
        times = []
        for turn in range(repeats + 1):
            a, b = arrays[turn % 2], arrays[2 + turn % 2]
            start = time.thread_time()
            kernels.compare_arrays(a, b)
            times.append(time.thread_time() - start)
        rate = 2 * arrays[0].nbytes / statistics.median(times[1:]) / 1e9
        print(f"{name:24}{rate:14.2f}")


def size_of(place: Path) -> int:
    """Bytes on disk, a file with several names once; reading them puts them into memory."""
    seen: dict[int, int] = {}
    for path in place.rglob("*"):
        if path.is_file():
            state = path.stat()
            seen[state.st_ino] = state.st_size
            path.read_bytes()
    return sum(seen.values())


def cost_of(command: Sequence[str], expected: int) -> tuple[float, float]:
    """Processor seconds and peak memory in MB of a command that ends with this exit code."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = process.stderr.read() if process.stderr else b""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != expected:
        sys.exit(said.decode("utf-8", "replace"))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, usage.ru_maxrss / 1024


def sonde_cost(place: Path, net: str) -> Cost:
    for name, scale in (("a", 1.001), ("b", 1.0)):
        place.mkdir(exist_ok=True)
        script = place / f"train_{name}.py"
        script.write_text(TRAIN.format(here=str(HERE), net=net, scale=scale))
        words = ["run", "--dump-to", str(place / name), "--net-name", "net", str(script)]
        subprocess.run([sys.executable, "-m", "sonde", *words], check=True)
    size = size_of(place / "a") + size_of(place / "b")
    command = [sys.executable, "-m", "sonde", "compare", str(place / "a"), str(place / "b")]
    runs = [cost_of(command, 1) for _ in range(3)]
    return size, statistics.median(run[0] for run in runs), max(run[1] for run in runs)


def msprobe_costs(python: str, place: Path, net: str) -> dict[str, Cost]:
    """The cost of comparing the same tensors with Sonde and with msprobe."""
    script = HERE / "msprobe_compare.py"
    count = size = 0
    for name, scale in (("a", 1.001), ("b", 1.0)):
        train = TRAIN.format(here=str(HERE), net=net, scale=scale)
        settings = {"place": str(place / name), "train": train}
        subprocess.run(
            [python, str(script), json.dumps(settings)], check=True, stdout=subprocess.DEVNULL
        )
        tensors, nbytes = convert(place / name / "dump" / "step0", place / "converted" / name)
        count, size = count + tensors, size + nbytes
    ours = [str(place / "converted" / name) for name in "ab"]
    steps = [place / name / "dump" / "step0" for name in "ab"]
    for each in (*ours, *steps):
        size_of(Path(each))
    sides = ["--target_path", str(steps[0]), "--golden_path", str(steps[1])]
    tool = str(Path(python).parent / "msprobe")
    runs: dict[str, list[tuple[float, float]]] = {"sonde": [], "msprobe": []}
    for turn in range(3):
        command = [sys.executable, "-m", "sonde", "compare", *ours]
        runs["sonde"].append(cost_of(command, 1))
        out = ["--output_path", str(place / f"out{turn}")]
        runs["msprobe"].append(cost_of([tool, "compare", *sides, *out], 0))
    print(f"the same {count} tensors, of two dumps by msprobe:")
    return {
        f"{name}, the same": (
            size,
            statistics.median(each[0] for each in found),
            max(each[1] for each in found),
        )
        for name, found in runs.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--net", default="gpt")
    parser.add_argument("--msprobe", metavar="PYTHON")
    parser.add_argument("--elements", type=int, default=1 << 24)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--kernel", action="store_true", help="the kernel alone")
    options = parser.parse_args()
    if options.kernel:
        kernel_rates(options.elements, options.repeats)
        return
    # In a process of its own: a child begins with the peak memory of its parent.
    subprocess.run([sys.executable, __file__, "--kernel", *sys.argv[1:]], check=True)
    print(f"\n{'compare, ' + options.net:24}{'MB':>9}{'cpu s':>9}{'s per GB':>10}{'peak MB':>9}")
    with tempfile.TemporaryDirectory(prefix="sonde-bench-") as place:
        _print({"sonde": sonde_cost(Path(place) / "sonde", options.net)})
        if options.msprobe:
            rows = msprobe_costs(options.msprobe, Path(place) / "msprobe", options.net)
            _print(rows)
            ours, theirs = (cost[1] for cost in rows.values())
            print(f"on the same tensors, msprobe takes {theirs / ours:.1f} times as long")


def _print(rows: dict[str, Cost]) -> None:
    for name, (size, seconds, memory) in rows.items():
        rate = seconds / size * 1e9
        print(f"{name:24}{size / 1e6:9.0f}{seconds:9.1f}{rate:10.2f}{memory:9.0f}")


if __name__ == "__main__":
    main()
