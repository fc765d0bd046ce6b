"""What observing costs: ratios to the bare training step, all taken in one run.

    python benchmarks/overhead.py [--nets gpt resnet tiny] [--repeats 9] [--msprobe PYTHON]

Variants are interleaved, one torch thread, medians: the wall time of a step until everything
is on disk, and the training thread's processor time, which other programs disturb least. Two rows
are limits that no tool of this kind can go below: "empty dispatch mode" is torch's own price of
calling a mode for every op, and "plain write" the time that one sequential write takes of the bytes
of the dump, to the same place.

``--msprobe`` names the Python of an environment that has ``mindstudio-probe`` and torch; it is then
measured in the same run.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from nets import NETS, trainer
from torch.utils._python_dispatch import TorchDispatchMode

import sonde
from sonde.adapters.torch.attach import attach
from sonde.capture.options import config_from_options

Variant = Callable[[Path], contextlib.AbstractContextManager[object]]


class EmptyMode(TorchDispatchMode):  # type: ignore[misc]
    """Calls every op, and does nothing else."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        return func(*args, **(kwargs or {}))


class Timing(NamedTuple):
    """Seconds of one step, until all is on disk, of the training thread's own time, and of one
    plain write of the bytes of the dump."""

    step: float
    flushed: float
    own: float
    plain_write: float


ALL_NUMBERS = (
    "max", "min", "avg", "count", "negative zero count", "positive zero count", "nan count",
    "negative inf count", "positive inf count", "zero count", "l2norm", "std", "abs mean",
    "finite max", "finite min",
)  # fmt: skip
FAR = "1000000"
# The first step differs from the later ones, which begin with the end of the one before. Under the
# overflow watch later steps are told by their call sites at first, and learned when they repeat
# for the third time.
_LEARNING_STEPS = 4


def _settings(place: Path, **changes: object) -> Path:
    common = {
        "dump_mode": 0,
        "path": str(place / "dump"),
        "net_name": "bench",
        "iteration": "all",
        "input_output": 0,
        "kernels": [],
        "support_device": [0],
    }
    synchronous = changes.pop("_synchronous", False)
    common.update(changes)
    path = place / "dump.json"
    settings = {"common_dump_settings": common, "e2e_dump_settings": {"enable": synchronous}}
    path.write_text(json.dumps(settings))
    return path


def _observed(**changes: object) -> Variant:
    def variant(place: Path) -> contextlib.AbstractContextManager[object]:
        from sonde.capture.config import load_config

        config = load_config(_settings(place, **changes), os.environ)
        return attach(config, starts_at_once=True)

    return variant


@contextlib.contextmanager
def _no_consumer(place: Path) -> Iterator[None]:
    """Ops are named, with scopes, lines and edges, but no consumer wants any."""
    config = config_from_options(place / "dump", os.environ, ops=["name-regex(none)"])
    with contextlib.redirect_stderr(open(os.devnull, "w")), attach(config, starts_at_once=True):
        yield


def _debug_mode(place: Path) -> contextlib.AbstractContextManager[object]:
    from torch.utils._debug_mode import DebugMode

    return DebugMode()


VARIANTS: dict[str, Variant] = {
    "bare": lambda place: contextlib.nullcontext(),
    "empty dispatch mode": lambda place: EmptyMode(),
    "attached, nothing wanted": _observed(iteration=FAR),
    "ops named, no consumer": _no_consumer,
    "statistics: max min l2norm": _observed(saved_data="statistic"),
    "statistics: all but hashes": _observed(
        saved_data="statistic", statistic_category=list(ALL_NUMBERS)
    ),
    "overflow watch": _observed(op_debug_mode=3),
    "tensors, asynchronous": _observed(dump_mode=2),
    "tensors, synchronous": _observed(dump_mode=2, _synchronous=True),
    "torch anomaly mode": lambda place: torch.autograd.detect_anomaly(check_nan=True),
    "torch DebugMode": _debug_mode,
}


@contextlib.contextmanager
def _everything_dumped() -> Iterator[None]:
    """Switch the dump on for one step, so that a repeat writes no more than it measures."""
    sonde.set_dump("name-regex(.*)", True)
    try:
        yield
    finally:
        sonde.set_dump("name-regex(.*)", False)


def _plain_write(place: Path) -> float:
    """Seconds for one sequential write of as many bytes as the files below ``place`` have."""
    files = {each.stat().st_ino: each.stat() for each in place.rglob("*.npy")}
    size = sum(each.st_size for each in files.values())
    piece = os.urandom(8 << 20)
    start = time.perf_counter()
    with open(place / "plain", "wb", buffering=0) as file:
        while size > 0:
            size -= file.write(memoryview(piece)[:size])
    return time.perf_counter() - start


def _timed(step: Callable[[], float], variant: Variant, *, writes: bool) -> Timing:
    place = Path(tempfile.mkdtemp(prefix="sonde-bench-"))
    try:
        with contextlib.ExitStack() as stack:
            capture = stack.enter_context(variant(place))
            for _ in range(_LEARNING_STEPS):
                step()
            if hasattr(capture, "flush"):
                capture.flush()
            gc.collect()
            with _everything_dumped():
                start, worked = time.perf_counter(), time.thread_time()
                step()
                worked = time.thread_time() - worked
            trained = time.perf_counter()
            stack.close()
            flushed = time.perf_counter()
            plain = _plain_write(place) if writes else 0.0
            return Timing(trained - start, flushed - start, worked, plain)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def measure(net: str, names: list[str], repeats: int) -> dict[str, Timing]:
    """Median ratios to bare."""
    step = trainer(NETS[net]())
    for _ in range(3):
        step()
    times: dict[str, list[Timing]] = {name: [] for name in names}
    for _ in range(repeats):
        for name in names:
            variant = VARIANTS[name]
            times[name].append(_timed(step, variant, writes=name.startswith("tensors")))
    bare = Timing(*map(statistics.median, zip(*times["bare"], strict=True)))
    base = (bare.step, bare.step, bare.own, bare.step)
    ratios = {}
    for name, rows in times.items():
        medians = map(statistics.median, zip(*rows, strict=True))
        ratios[name] = Timing(*(median / per for median, per in zip(medians, base, strict=True)))
    return ratios


def peak_memory(net: str, name: str) -> int:
    """Peak resident bytes of a fresh process that trains four steps under a variant."""
    command = [sys.executable, __file__, "--nets", net, "--peak-of", name]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1])


def _print_peak(net: str, name: str) -> None:
    step = trainer(NETS[net]())
    place = Path(tempfile.mkdtemp(prefix="sonde-bench-"))
    try:
        with VARIANTS[name](place):
            for _ in range(_LEARNING_STEPS):
                step()
            with _everything_dumped():
                step()
            step()
    finally:
        shutil.rmtree(place, ignore_errors=True)
    status = Path("/proc/self/status").read_text()
    print(int(status.split("VmHWM:")[1].split()[0]) * 1024)


def _msprobe(python: str, net: str, repeats: int) -> dict[str, float]:
    script = Path(__file__).with_name("msprobe_overhead.py")
    command = [python, str(script), net, str(repeats)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        print(f"msprobe failed on {net}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return {}
    ratios: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nets", nargs="+", default=list(NETS), choices=list(NETS))
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--no-memory", action="store_true", help="leave out peak memory")
    parser.add_argument("--msprobe", metavar="PYTHON", help="a Python that has mindstudio-probe")
    parser.add_argument("--peak-of", choices=list(VARIANTS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.peak_of:
        _print_peak(options.nets[0], options.peak_of)
        return
    names = ["bare", *(name for name in options.variants if name != "bare")]
    titles = ("step", "flushed", "own time", "peak RSS")
    print(f"{'x of bare':32} {'net':8}" + "".join(f" {title:>9}" for title in titles))
    for net in options.nets:
        _print_ratios(net, names, options.repeats, memory=not options.no_memory)
        if options.msprobe:
            for name, ratio in _msprobe(options.msprobe, net, options.repeats).items():
                print(f"{name:32} {net:8} {ratio:9.3f}", flush=True)


def _print_ratios(net: str, names: list[str], repeats: int, *, memory: bool) -> None:
    ratios = measure(net, names, repeats)
    base = peak_memory(net, "bare") if memory else 0
    for name in names:
        found = ratios[name]
        peak = f"{peak_memory(net, name) / base:9.2f}" if base else ""
        numbers = f" {found.step:9.3f} {found.flushed:9.3f} {found.own:9.3f}"
        print(f"{name:32} {net:8}{numbers} {peak}", flush=True)
        if found.plain_write:
            share = found.flushed / found.plain_write
            text = f"   flushed in {share:.2f} of the time of the plain write"
            print(f"{'  plain write':32} {net:8} {'':9} {found.plain_write:9.3f}{text}")


if __name__ == "__main__":
    main()
