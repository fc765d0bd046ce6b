"""How fast the background writer writes: ratios to one plain sequential write, in one run.

    python benchmarks/writer.py [--repeats 7] [--directory DIR]

Variants are interleaved, medians of the repeats, into the page cache. The rates are from the
first call to the last file in place. ``calling thread`` is what queueing one job costs the thread
that calls: its CPU time, which is what a training pays, and the time that passes.
``at best`` compares the quickest repeats and ``cpu`` is the CPU time of all threads for one file:
the two that other programs on the machine disturb least.

Files are emptied between repeats and deleted at the end: ext4 checks every inode deleted in the
last minutes before it creates a new one, which would be measured instead.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import statistics
import struct
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from sonde.dump.writing.python_writer import PythonWriter
from sonde.dump.writing.writer import Writer

HEADER = b"h" * 128
ROOMY = 1 << 40
NAME = "Convolution.Default_network-ResNet_layer1-Sequential_0-BasicBlock_conv1-Conv2d_convolution"
_POOL_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Workload:
    """The sizes of the files, and the number of links to each."""

    title: str
    sizes: tuple[int, ...]
    links: int = 0

    @property
    def bytes(self) -> int:
        return sum(self.sizes) + len(HEADER) * len(self.sizes)

    @property
    def jobs(self) -> int:
        return len(self.sizes) * (1 + self.links)


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds: all of it, the calls that queue, the caller's CPU in them, all threads' CPU."""

    total: float
    calls: float
    caller_cpu: float
    cpu: float


def workloads() -> list[Workload]:
    # Sizes as in one training step: many scalars and biases, fewer weights, some activations.
    shares = {4: 60, 1024: 60, 16 << 10: 60, 256 << 10: 80, 1 << 20: 80, 2 << 20: 60, 8 << 20: 12}
    mix = [size for size, count in shares.items() for _ in range(count)]
    np.random.default_rng(0).shuffle(mix)
    return [
        Workload("1 MB files", (1 << 20,) * 400),
        Workload("a training step: 4 B to 8 MB, one link each", tuple(mix), links=1),
        Workload("4 KB files", (4 << 10,) * 2000),
    ]


class Pool:
    """Memory that has been touched, cut into pieces."""

    def __init__(self) -> None:
        self.array = np.random.default_rng(0).integers(0, 256, _POOL_BYTES, dtype=np.uint8)
        self._next = 0

    def piece(self, size: int) -> memoryview:
        """The next piece of this many bytes, not the previous one."""
        start = self._next if self._next + size <= _POOL_BYTES else 0
        self._next = start + size
        return self.array.data[start : start + size]

    def address(self, size: int) -> int:
        """The address of the next ``piece``."""
        self.piece(size)
        return int(self.array.ctypes.data) + self._next - size


Contestant: TypeAlias = Callable[[Path, Workload, Pool], Timing]


def plain(directory: Path, workload: Workload, pool: Pool) -> Timing:
    """One file, one write for each piece."""
    begin, cpu = time.perf_counter(), time.process_time()
    descriptor = os.open(directory / "plain", os.O_CREAT | os.O_WRONLY, 0o666)
    for size in workload.sizes:
        os.writev(descriptor, [HEADER, pool.piece(size)])
    os.close(descriptor)
    total, cpu = time.perf_counter() - begin, time.process_time() - cpu
    return Timing(total, total, cpu, cpu)


def in_line(directory: Path, workload: Workload, pool: Pool) -> Timing:
    """A file for each piece, written by the caller: what a synchronous dump does."""
    begin, cpu = time.perf_counter(), time.process_time()
    for number, size in enumerate(workload.sizes):
        path = f"{directory}/{NAME}-op{number}.npy"
        with open(f"{path}.partial", "wb", buffering=0) as file:
            file.write(HEADER)
            file.write(pool.piece(size))
        os.rename(f"{path}.partial", path)
        for link in range(workload.links):
            os.link(path, f"{directory}/{NAME}-op{number}.{link}.npy")
    total, cpu = time.perf_counter() - begin, time.process_time() - cpu
    return Timing(total, total, cpu, cpu)


def through(open_writer: Callable[[], Writer]) -> Contestant:
    def contestant(directory: Path, workload: Workload, pool: Pool) -> Timing:
        writer = open_writer()
        jobs = [
            (f"{directory}/{NAME}-op{number}.npy", pool.address(size), size)
            for number, size in enumerate(workload.sizes)
        ]
        names = [f"{path[:-4]}.{link}.npy" for path, _, _ in jobs for link in range(workload.links)]
        links = iter(names)
        cpu = time.process_time()
        begin, caller = time.perf_counter(), time.thread_time()
        for path, address, size in jobs:
            job = writer.write(path, HEADER, address, size, pool)
            for _ in range(workload.links):
                writer.link(job, next(links))
        calls, caller = time.perf_counter() - begin, time.thread_time() - caller
        writer.wait_all()
        total, cpu = time.perf_counter() - begin, time.process_time() - cpu
        assert writer.error is None, writer.error
        assert writer.written_bytes == workload.bytes
        writer.close()
        return Timing(total, calls, caller, cpu)

    return contestant


def contestants() -> dict[str, Contestant]:
    found: dict[str, Contestant] = {
        "plain sequential write": plain,
        "files in line, no writer": in_line,
    }
    with suppress(ImportError):
        from sonde.dump.writing import _writer

        found["native, 1 thread"] = through(lambda: _writer.Writer(1, ROOMY))
        found["native, 2 threads"] = through(lambda: _writer.Writer(2, ROOMY))
        found["native, 1 thread, partial names"] = through(lambda: _writer.Writer(1, ROOMY, False))
    found["python"] = through(lambda: PythonWriter(1, ROOMY))
    return found


def measure(root: Path, workload: Workload, pool: Pool, repeats: int) -> dict[str, list[Timing]]:
    timings: dict[str, list[Timing]] = {}
    for repeat in range(repeats + 1):  # The first is to warm up.
        for name, contestant in contestants().items():
            directory = Path(tempfile.mkdtemp(dir=root))
            timing = contestant(directory, workload, pool)
            if repeat:
                timings.setdefault(name, []).append(timing)
            for path in directory.iterdir():
                os.truncate(path, 0)
    return timings


def spread_directories(root: Path) -> None:
    """Ask ext4 to place the directories below far from each other, and from deleted files."""
    get_flags, set_flags, top_directory = 0x80086601, 0x40086602, 0x20000
    descriptor = os.open(root, os.O_RDONLY)
    with suppress(OSError):
        flags = struct.unpack("l", fcntl.ioctl(descriptor, get_flags, bytes(8)))[0]
        fcntl.ioctl(descriptor, set_flags, struct.pack("l", flags | top_directory))
    os.close(descriptor)


def show(workload: Workload, timings: dict[str, list[Timing]]) -> None:
    def median(name: str, pick: Callable[[Timing], float]) -> float:
        return statistics.median(map(pick, timings[name]))

    megabytes = workload.bytes / 1e6
    print(f"\n{workload.title}: {len(workload.sizes)} files, {megabytes:.0f} MB")
    print(
        f"{'':31} {'MB/s':>6} {'of plain':>9} {'at best':>8} {'us/file':>8} {'cpu':>7}"
        "   calling thread, us/job"
    )
    plain_median = median("plain sequential write", lambda timing: timing.total)
    plain_best = min(timing.total for timing in timings["plain sequential write"])
    per_file, per_job = 1e6 / len(workload.sizes), 1e6 / workload.jobs
    for name, taken in timings.items():
        total, cpu = median(name, lambda t: t.total), median(name, lambda t: t.cpu)
        caller, calls = median(name, lambda t: t.caller_cpu), median(name, lambda t: t.calls)
        best = min(timing.total for timing in taken)
        queueing = f"cpu {caller * per_job:5.2f}, time {calls * per_job:5.2f}"
        print(
            f"{name:31} {megabytes / total:6.0f} {plain_median / total:9.2f} "
            f"{plain_best / best:8.2f} {total * per_file:8.1f} {cpu * per_file:7.1f}"
            f"   {queueing if 'thread' in name else ''}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--directory", type=Path, default=Path(tempfile.gettempdir()))
    options = parser.parse_args()
    pool = Pool()
    root = Path(tempfile.mkdtemp(prefix="sonde-writer-", dir=options.directory))
    try:
        spread_directories(root)
        for workload in workloads():
            show(workload, measure(root, workload, pool, options.repeats))
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
