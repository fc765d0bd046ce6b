"""What observing costs where the structure of steps does not repeat: ratios to the bare training.

    python benchmarks/varying.py [--programs reinforce ...] [--repeats 5] [--profile MODE]

Each program of ``varying_programs.py`` trains bare and under the modes of ``sonde run``, from the
first op to the last, so that learning is included. Modes are interleaved, one torch thread,
medians of the training thread's processor time. A loss that differs from the bare one is reported.
"floor" is a dispatch mode that does nothing: torch's own price of calling a mode for every op.
"guard" is what ``steps-differ`` recommends where that is too much. "recorder", if asked for, is
torch's own observer in C++ that looks for NaN and Inf (``record_function.cpp``, built at once with
g++): what a search for overflow costs that calls no Python for an op, and names none.
"""

from __future__ import annotations

import argparse
import contextlib
import cProfile
import ctypes
import functools
import gc
import os
import pstats
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils import cpp_extension
from torch.utils._python_dispatch import TorchDispatchMode
from varying_programs import PROGRAMS

import sonde
from sonde.adapters.torch.attach import attach
from sonde.capture.options import config_from_options


class _Floor(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


@functools.cache
def _recorder() -> ctypes.CDLL:
    """The built ``record_function.cpp``."""
    torch_library = Path(torch.__file__).parent / "lib"
    with tempfile.TemporaryDirectory() as place:
        built = Path(place, "recorder.so")
        command = ["g++", "-std=c++20", "-O2", "-fPIC", "-shared", "-o", str(built)]
        command += [f"-I{path}" for path in cpp_extension.include_paths()]
        command += [str(Path(__file__).with_name("record_function.cpp"))]
        command += [f"-L{torch_library}", "-lc10", "-ltorch_cpu"]
        subprocess.run(command, check=True)
        return ctypes.CDLL(str(built))


@contextlib.contextmanager
def _mode(name: str, place: Path) -> Iterator[None]:
    if name == "bare":
        yield
        return
    if name == "floor":
        with _Floor():
            yield
        return
    if name == "recorder":
        _recorder().start()
        try:
            yield
        finally:
            _recorder().stop()
        return
    if name == "guard":
        with (
            open(os.devnull, "w") as nowhere,
            contextlib.redirect_stderr(nowhere),
            sonde.guard(place / "steps"),
        ):
            yield
        return
    config = config_from_options(
        place / "dump", os.environ, stats=name == "stats", overflow=name == "overflow"
    )
    with (
        open(os.devnull, "w") as nowhere,
        contextlib.redirect_stderr(nowhere),
        attach(config, starts_at_once=False),
    ):
        yield


MODES = ("bare", "floor", "overflow", "stats", "guard")
ALL_MODES = (*MODES, "recorder")


def _run(program: str, mode: str, steps: int | None) -> tuple[float, float, int]:
    """Seconds of processor time, the last loss, and the bytes of graph files."""
    place = Path(tempfile.mkdtemp(prefix="sonde-bench-"))
    torch.manual_seed(0)
    random.seed(0)
    gc.collect()
    try:
        with _mode(mode, place):
            start = time.thread_time()
            loss = PROGRAMS[program](*([] if steps is None else [steps]))
            worked = time.thread_time() - start
        graphs = sum(
            path.stat().st_size
            for path in place.rglob("*")
            if path.is_file() and path.parent.name in ("graphs", "execution_order")
        )
        return worked, loss, graphs
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _profile(program: str, mode: str, steps: int | None) -> None:
    profile = cProfile.Profile()
    profile.enable()
    _run(program, mode, steps)
    profile.disable()
    pstats.Stats(profile).sort_stats("tottime").print_stats(30)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", nargs="+", default=list(PROGRAMS), choices=list(PROGRAMS))
    parser.add_argument("--modes", nargs="+", default=list(MODES), choices=ALL_MODES)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--steps", type=int, help="train so many steps, instead of a few")
    parser.add_argument("--profile", metavar="MODE", choices=ALL_MODES, help="where the time goes")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.profile:
        for program in options.programs:
            _profile(program, options.profile, options.steps)
        return
    modes = ["bare", *(mode for mode in options.modes if mode != "bare")]
    print(f"{'x of bare':20} {'bare ms':>9}" + "".join(f"{mode:>10}" for mode in modes[1:]))
    for program in options.programs:
        _run(program, "bare", options.steps)
        times: dict[str, list[float]] = {mode: [] for mode in modes}
        losses: dict[str, float] = {}
        graphs = 0
        for _ in range(options.repeats):
            for mode in modes:
                worked, losses[mode], size = _run(program, mode, options.steps)
                times[mode].append(worked)
                graphs = max(graphs, size)
        bare = statistics.median(times["bare"])
        ratios = "".join(f"{statistics.median(times[mode]) / bare:10.2f}" for mode in modes[1:])
        wrong = [mode for mode in modes if losses[mode] != losses["bare"]]
        note = f"  loss differs: {', '.join(wrong)}" if wrong else ""
        size = f"  graph files {graphs / 1e6:.1f} MB" if graphs else ""
        print(f"{program:20} {bare * 1e3:9.1f}{ratios}{size}{note}", flush=True)


if __name__ == "__main__":
    main()
