"""What observing compiled code costs: ratios to the plain compiled step, all taken in one run.

    python benchmarks/compiled.py [--nets gpt resnet] [--repeats 9] [--steps 3] [--compilations 3]

Inductor, batch 8, one torch thread. Variants are interleaved, medians: the step as the clock sees
it, and the training thread's processor time, which other programs disturb least. The time of
compilation is the processor's, this process's and its children's, each compiled anew with empty
caches in a process of its own.

The C library returns freed memory to the system and requests it again, depending on the layout of
the heap: for ResNet 4,000 to 25,000 page faults a step, a tenth of its time, in any variant. That
is switched off for all variants.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from nets import gpt, resnet18, trainer

from sonde.adapters.torch.attach import attach
from sonde.adapters.torch.compiled import gate as compile_gate
from sonde.capture.options import config_from_options

NETS = {"gpt": lambda: gpt(8), "resnet": lambda: resnet18(8)}
FAR = "1000000"
STILL = {
    "MALLOC_TRIM_THRESHOLD_": "100000000000",
    "MALLOC_MMAP_THRESHOLD_": "100000000000",
    "MALLOC_TOP_PAD_": "268435456",
}


def compiled_trainer(name: str) -> Callable[[], float]:
    module, data, loss = NETS[name]()
    return trainer((torch.compile(module), data, loss))


def capture(place: Path, *, compiled: str = "observe", **options: Any) -> Any:
    config = config_from_options(str(place / "dump"), os.environ, **options)
    return attach(config, starts_at_once=True, compiled=compiled)


@contextlib.contextmanager
def quiet() -> Any:
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
        yield


def ten_of(name: str, place: Path) -> list[str]:
    """Ten outputs of linear or convolution layers in forward, evenly spread."""
    from sonde.dump.reader import Dump

    step = compiled_trainer(name)
    torch._dynamo.reset()
    with quiet(), capture(place / "names", stats=True, steps="0", compiled="interpret"):
        step()
    graph = next(iter(Dump(place / "names" / "dump").graphs()))
    layers = ("addmm", "mm", "convolution")
    ops = [node.name for node in graph.ops if node.phase == "forward" and node.type in layers]
    return ops[:: max(1, len(ops) // 10)][:10]


def measure(name: str, repeats: int, steps: int) -> dict[str, tuple[float, float]]:
    place = Path(tempfile.mkdtemp(prefix="sonde-bench-"))
    chosen = ten_of(name, place)
    torch._dynamo.reset()
    # The plain code, compiled by a torch that knows nothing of Sonde.
    bare = compiled_trainer(name)
    bare()
    # That code was compiled before is what makes comparing possible, and would be respected.
    compile_gate.possible_mode = lambda asked, session: asked
    seen = compiled_trainer(name)
    module, data, loss = NETS[name]()
    eager = trainer((module, data, loss))
    interpreted = compiled_trainer(name)
    variants: dict[str, tuple[Callable[[], float], dict[str, Any] | None]] = {
        "plain": (bare, None),
        "nothing selected": (seen, {"steps": FAR}),
        "up to 10 nodes": (seen, {"stats": True, "ops": chosen}),
        "statistics of all nodes": (seen, {"stats": True}),
        "eager": (eager, None),
        "interpreted, one node": (
            interpreted,
            {"stats": True, "ops": chosen[:1], "compiled": "interpret"},
        ),
    }
    clock: dict[str, list[float]] = {key: [] for key in variants}
    thread: dict[str, list[float]] = {key: [] for key in variants}
    for turn in range(repeats + 1):
        for key, (step, options) in variants.items():
            shutil.rmtree(place / "dump", ignore_errors=True)
            with contextlib.ExitStack() as stack:
                stack.enter_context(quiet())
                if options is not None:
                    stack.enter_context(capture(place, **options))
                step()
                step()
                for _ in range(steps):
                    began, busy = time.perf_counter(), time.thread_time()
                    step()
                    if turn:
                        clock[key].append(time.perf_counter() - began)
                        thread[key].append(time.thread_time() - busy)
    shutil.rmtree(place)
    return {
        key: (statistics.median(clock[key]), statistics.median(thread[key])) for key in variants
    }


def compile_seconds(name: str, *, observed: bool) -> float:
    """Processor seconds of a first step in a process of its own, caches empty."""
    with tempfile.TemporaryDirectory(prefix="sonde-bench-") as place:
        environment = {
            **os.environ,
            "TORCHINDUCTOR_CACHE_DIR": f"{place}/cache",
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
        }
        command = [sys.executable, __file__, "--first-step", name, *(["--seen"] * observed)]
        done = subprocess.run(
            command, env=environment, cwd=place, check=True, capture_output=True, text=True
        )
        return float(json.loads(done.stdout.splitlines()[-1]))


def first_step(name: str, *, observed: bool) -> None:
    torch.set_num_threads(1)
    with contextlib.ExitStack() as stack:
        if observed:
            stack.enter_context(capture(Path.cwd(), stats=True))
        step = compiled_trainer(name)
        torch.compile(lambda x: x + 1)(torch.ones(1))  # the compiler itself is loaded before
        began = _processor_seconds()
        step()
        seconds = _processor_seconds() - began
    print(json.dumps(seconds))


def _processor_seconds() -> float:
    total = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        used = resource.getrusage(who)
        total += used.ru_utime + used.ru_stime
    return total


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nets", nargs="*", default=list(NETS))
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--compilations", type=int, default=3, help="0: compile time is left out")
    parser.add_argument("--only-compile-time", action="store_true")
    parser.add_argument("--first-step")
    parser.add_argument("--seen", action="store_true")
    given = parser.parse_args()
    if given.first_step:
        first_step(given.first_step, observed=given.seen)
        return
    torch.set_num_threads(1)
    for name in given.nets:
        print(f"\n{name}, batch 8 (ms; ratios: clock, processor)")
        if not given.only_compile_time:
            print_steps(measure(name, given.repeats, given.steps))
        if given.compilations:
            print_compilations(name, given.compilations)


def print_steps(times: dict[str, tuple[float, float]]) -> None:
    for key, (clock, busy) in times.items():
        base = times["eager" if key.startswith("interpreted") else "plain"]
        ratio = f"{clock / base[0]:6.3f} {busy / base[1]:6.3f}"
        print(f"  {key:32} {clock * 1e3:8.1f} {busy * 1e3:8.1f}   {ratio}", flush=True)


def print_compilations(name: str, count: int) -> None:
    pairs = [
        (compile_seconds(name, observed=False), compile_seconds(name, observed=True))
        for _ in range(count)
    ]
    plain, seen = (statistics.median(times) for times in zip(*pairs, strict=True))
    each = " ".join(f"{after / before:.2f}" for before, after in pairs)
    print(f"  compile time {plain:.1f} s, with all nodes observed {seen:.1f} s; ratios {each}")
    ratio = statistics.median(after / before for before, after in pairs)
    print(f"  {'compile time, all nodes':32} {'':8} {'':8}   {'':6} {ratio:6.3f}", flush=True)


if __name__ == "__main__":
    if not STILL.keys() <= os.environ.keys():
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **STILL})
    main()
