"""What guarding costs: ratios to the bare training step, taken in one run.

    python benchmarks/guard.py [--nets gpt resnet] [--repeats 6] [--msprobe PYTHON]

Variants are interleaved, one torch thread, medians: the wall time of a step, and the training
thread's processor time, which other programs disturb least. ``--msprobe`` names the Python of an
environment that has ``mindstudio-probe`` and torch; its monitor is then measured in the same run.
Takes about five minutes on an idle machine.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from nets import NETS, trainer

import sonde
from sonde.adapters.torch.attach import attach
from sonde.capture.options import config_from_options

Variant = Callable[[Path], contextlib.AbstractContextManager[object]]
BUDGET = {"gpt": 1.02, "resnet": 1.01}
_LEARNING_STEPS = 3


def _overflow(place: Path) -> contextlib.AbstractContextManager[object]:
    config = config_from_options(place / "dump", os.environ, overflow=True)
    return attach(config, starts_at_once=True)


VARIANTS: dict[str, Variant] = {
    "bare": lambda place: contextlib.nullcontext(),
    "guard": lambda place: sonde.guard(place / "steps"),
    "guard, snapshot every 50": lambda place: sonde.guard(place / "steps", snapshot_every=50),
    "overflow watch": _overflow,
}


def _timed(step: Callable[[], float], variant: Variant, steps: int) -> list[tuple[float, float]]:
    """Seconds and processor seconds of the training thread, of each of ``steps`` steps."""
    place = Path(tempfile.mkdtemp(prefix="sonde-bench-"))
    found = []
    try:
        with open(os.devnull, "w") as quiet, contextlib.redirect_stderr(quiet), variant(place):
            for number in range(_LEARNING_STEPS + steps):
                start, worked = time.perf_counter(), time.thread_time()
                step()
                now, done = time.perf_counter(), time.thread_time()
                if number >= _LEARNING_STEPS:
                    found.append((now - start, done - worked))
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return found


def measure(net: str, names: list[str], repeats: int) -> dict[str, tuple[float, float]]:
    """Median ratios to bare of each variant: wall time, and the training thread's own."""
    step = trainer(NETS[net]())
    for _ in range(3):
        step()
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for _ in range(repeats):
        for name in names:
            times[name] += _timed(step, VARIANTS[name], 3)
    base = [statistics.median(column) for column in zip(*times["bare"], strict=True)]
    ratios = {}
    for name, rows in times.items():
        wall, own = (statistics.median(column) for column in zip(*rows, strict=True))
        ratios[name] = (wall / base[0], own / base[1])
    return ratios


def _msprobe(python: str, net: str, repeats: int) -> str:
    script = Path(__file__).with_name("msprobe_monitor.py")
    command = [python, str(script), net, str(repeats)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return f"failed: {(done.stderr.strip().splitlines() or ['?'])[-1]}"
    return f"{'':9} {float(done.stdout.split()[-1]):9.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nets", nargs="+", default=["gpt", "resnet"], choices=list(NETS))
    parser.add_argument("--repeats", type=int, default=6)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--msprobe", metavar="PYTHON", help="a Python that has mindstudio-probe")
    options = parser.parse_args()
    torch.set_num_threads(1)
    names = ["bare", *(name for name in options.variants if name != "bare")]
    print(f"{'x of bare':28} {'net':8} {'step':>9} {'own time':>9}")
    for net in options.nets:
        for name, (wall, own) in measure(net, names, options.repeats).items():
            verdict = ""
            if name == "guard" and net in BUDGET:
                is_kept = own <= BUDGET[net]
                verdict = f"   of at most {BUDGET[net]}: {'kept' if is_kept else 'NOT KEPT'}"
            print(f"{name:28} {net:8} {wall:9.3f} {own:9.3f}{verdict}", flush=True)
        text = _msprobe(options.msprobe, net, options.repeats) if options.msprobe else "not given"
        print(f"{'msprobe monitor':28} {net:8} {text}", flush=True)


if __name__ == "__main__":
    main()
