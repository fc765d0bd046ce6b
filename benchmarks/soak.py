"""Whether a long training stays as fast and as small as it began, with each mode of Sonde.

    python benchmarks/soak.py [--steps 100000] [--modes bare stats ...] [--csv FILE]

A tiny training, one torch thread, one fresh process for each mode:

- ``bare``: without Sonde;
- ``stats``: ``--stats --dump-ops 'name-regex(.*relu.*)'``, every step on disk;
- ``tensors``: ``--dump-ops 'name-regex(.*relu.*)'``, every step on disk;
- ``overflow``: ``--overflow``;
- ``overflow-nan``: the same while every step has NaN;
- ``debugger``: attached to a server with one watchpoint on all ops;
- ``debugger-hits``: the same with a watchpoint that every op of every step hits.

The table has a line for each tenth of the run: resident memory, processor time of the training
thread and of the whole process per step (the latter includes the writer's threads), wall time, and
the resident memory of the debugger's server. Below it are the slopes, by least squares over the
second half of the run, per 10,000 steps, and what is on disk: files, directories, bytes.
``--csv`` has all samples, a hundred per mode, as curves. ``--profile A B`` prints what the
training thread did in the steps A to B.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

SAMPLES = 100
PAGE = os.sysconf("SC_PAGE_SIZE")
RELU = "name-regex(.*relu.*)"


@dataclass(frozen=True, slots=True)
class Sample:
    """One point of the curves: the state after ``step`` steps, times per step since the last."""

    mode: str
    step: int
    rss_mb: float
    thread_ms: float
    process_ms: float
    wall_ms: float
    server_mb: float


# ---------------------------------------------------------------- the training


@contextlib.contextmanager
def _observed(mode: str, place: Path) -> Iterator[int]:
    """Observe what runs inside; the id of the debugger's server, or 0."""
    from sonde.adapters.torch.attach import attach
    from sonde.capture.options import config_from_options

    if mode == "bare":
        yield 0
    elif mode.startswith("debugger"):
        with _debugger(hits=mode == "debugger-hits") as server:
            yield server
    else:
        config = config_from_options(
            place,
            os.environ,
            stats=mode == "stats",
            ops=[RELU] if mode in ("stats", "tensors") else (),
            overflow=mode.startswith("overflow"),
        )
        with attach(config, starts_at_once=True):
            yield 0


@contextlib.contextmanager
def _debugger(hits: bool) -> Iterator[int]:
    from sonde.adapters.torch.attach import attach
    from sonde.debugger.launch.server_process import ServerProcess
    from sonde.debugger.settings import DebuggerOptions
    from sonde.wire.shapes import ConditionSpec, WatchpointSpec

    server = ServerProcess(port=0, rank_port=0, pause=False)
    always = ConditionSpec("tensor_too_large", {"abs_mean_gt": 0.0})
    condition = always if hits else ConditionSpec("tensor_overflow")
    watchpoint = WatchpointSpec(1, "", (condition,), break_after=0)
    options = DebuggerOptions(
        port=server.rank_port,
        pause=False,
        run="soak",
        budget_bytes=1 << 28,
        watchpoints=(watchpoint,),
    )
    if server.token:
        options = DebuggerOptions(**{**asdict(options), "token": server.token})
    try:
        with attach(None, starts_at_once=False, debugger=options):
            yield server._process.pid
    finally:
        server.end()


def train(mode: str, steps: int, place: Path, profiled: tuple[int, int] | None) -> None:
    """Train, and print a sample as a line of JSON a hundred times."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    x, y = torch.randn(4, 8), torch.randint(0, 2, (4,))
    if mode == "overflow-nan":
        x[0, 0] = float("nan")
    every = max(1, steps // SAMPLES)
    with _observed(mode, place) as server:
        before = _clocks()
        for step in range(1, steps + 1):
            if profiled and step == profiled[0]:
                profile = _profile()
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()
            if profiled and step == profiled[1]:
                _print_profile(profile)
            if step % every == 0:
                now = _clocks()
                times = [(b - a) / every * 1e3 for a, b in zip(before, now, strict=True)]
                sample = Sample(mode, step, _resident("self"), *times, _tree_resident(server))
                print(json.dumps(asdict(sample)), flush=True)
                before = _clocks()


def _clocks() -> tuple[float, float, float]:
    return time.thread_time(), time.process_time(), time.perf_counter()


def _resident(process: str) -> float:
    """Megabytes of a process."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGE / 1e6


def _tree_resident(process: int) -> float:
    """Megabytes of a process and its children; 0 without one."""
    if not process:
        return 0.0
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return sum(map(_resident, (str(process), *children)))


def _profile() -> object:
    import cProfile

    profile = cProfile.Profile()
    profile.enable()
    return profile


def _print_profile(profile: object) -> None:
    import cProfile
    import pstats

    assert isinstance(profile, cProfile.Profile)
    profile.disable()
    pstats.Stats(profile, stream=sys.stderr).sort_stats("tottime").print_stats(15)


# ---------------------------------------------------------------- the report


def soak(mode: str, options: argparse.Namespace) -> list[Sample]:
    place = Path(tempfile.mkdtemp(prefix="sonde-soak-", dir=options.directory))
    command = [sys.executable, __file__, "--child", mode, "--steps", str(options.steps)]
    command += ["--directory", str(place)]
    if options.profile:
        command += ["--profile", *map(str, options.profile)]
    samples = []
    print(f"\n{mode}, {options.steps} steps\n{_HEADER}", flush=True)
    try:
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                samples.append(Sample(**json.loads(line)))
                _show(samples, options.steps)
        if process.returncode:
            sys.exit(f"{mode}: the training ended with {process.returncode}")
        _print_slopes(samples)
        _print_disk(place, options.steps)
    finally:
        shutil.rmtree(place)
    return samples


_HEADER = "     step    RSS MB  thread ms  process ms   wall ms  server MB"


def _show(samples: list[Sample], steps: int) -> None:
    """A line for each tenth of the run: the last memory, the mean of the times; else progress."""
    tenth = max(1, SAMPLES // 10)
    last = samples[-1]
    if len(samples) % tenth:
        if sys.stderr.isatty():
            print(f"\r{last.step} of {steps}\r", end="", file=sys.stderr, flush=True)
        return
    part = samples[-tenth:]
    thread, process, wall = (
        sum(getattr(each, name) for each in part) / tenth
        for name in ("thread_ms", "process_ms", "wall_ms")
    )
    print(
        f"{last.step:9} {last.rss_mb:9.1f} {thread:10.3f} {process:11.3f} {wall:9.3f} "
        f"{last.server_mb:10.1f}",
        flush=True,
    )


def _print_slopes(samples: list[Sample]) -> None:
    half = samples[len(samples) // 2 :]
    if len(half) < 2:
        return
    at = np.array([each.step for each in half]) / 10_000
    print("growth over the second half, per 10,000 steps:")
    for name, unit, label in (
        ("rss_mb", "MB", "RSS"),
        ("thread_ms", "ms a step", "training thread"),
        ("process_ms", "ms a step", "process"),
        ("server_mb", "MB", "server RSS"),
    ):
        values = np.array([getattr(each, name) for each in half])
        if values.any():
            # The median of the pairs' slopes (Theil-Sen): a busy moment of the machine is no trend.
            later, earlier = np.triu_indices(len(at), 1)[::-1]
            slope = float(np.median((values[later] - values[earlier]) / (at[later] - at[earlier])))
            print(f"  {label:16} {slope:+9.4f} {unit} ({slope / np.median(values):+.2%})")


def _print_disk(place: Path, steps: int) -> None:
    files = directories = length = blocks = 0
    for folder, inside, names in os.walk(place):
        directories += len(inside)
        for name in (*inside, *names):
            status = os.lstat(os.path.join(folder, name))
            blocks += status.st_blocks * 512
            if name in names:
                files += 1
                length += status.st_size
    if files:
        inodes = (files + directories) / steps
        print(
            f"on disk: {files} files and {directories} directories ({inodes:.1f} inodes a step), "
            f"{length / 1e6:.0f} MB, {blocks / 1e6:.0f} MB in blocks"
        )


MODES = ("bare", "stats", "tensors", "overflow", "overflow-nan", "debugger", "debugger-hits")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--modes", nargs="+", default=MODES, choices=MODES)
    parser.add_argument("--directory", type=Path, help="for the dumps; by default a temporary one")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write all samples")
    parser.add_argument("--profile", type=int, nargs=2, metavar=("A", "B"))
    parser.add_argument("--child", choices=MODES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        profiled = tuple(options.profile) if options.profile else None
        train(options.child, options.steps, options.directory, profiled)
        return
    samples = [sample for mode in options.modes for sample in soak(mode, options)]
    if options.csv:
        with options.csv.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, [field.name for field in fields(Sample)])
            writer.writeheader()
            writer.writerows(map(asdict, samples))


if __name__ == "__main__":
    main()
