"""What profiling costs: ratios to the bare training step, all taken in one run.

    python benchmarks/profiling.py [--nets gpt resnet tiny] [--repeats 5]

Bare steps, steps outside the window, and profiled steps take turns; one torch thread, medians. Wall
time depends on other programs on the machine; the training thread's processor time hardly does. The
step that is run to learn names is not timed by ``sonde profile`` and has its own column. So has
torch's own profiler, which records no names, modules or lines: with its default options, and with
ours, which is the least that recording every op costs ("least").
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import statistics
import time
from collections.abc import Callable, Iterator

import torch
from nets import NETS, trainer

from sonde.cli.profile_run import recording
from sonde.profile.record import private
from sonde.profile.record.recorder import ProfileRecorder
from sonde.profile.record.window import StepWindow

FAR = 1_000_000
KINDS = ("outside", "learning", "profiled", "least", "torch")
Taken = tuple[float, float]


def recorded(window: StepWindow) -> contextlib.AbstractContextManager[ProfileRecorder]:
    """The context of a program under ``sonde profile``."""
    return recording(window, stops=False, wants_memory=False, say=lambda text: None)


@contextlib.contextmanager
def torch_profiler(*, is_light: bool) -> Iterator[None]:
    """Torch's profiler alone, with its default options or with those that Sonde gives it."""
    options = private.light_options() if is_light else {}
    profiler = torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=False, **options
    )
    with private.ops_and_ranges_only() if is_light else contextlib.nullcontext():
        profiler.start()
    try:
        yield
    finally:
        profiler.stop()


def timed(step: Callable[[], float]) -> Taken:
    """One step by the clock and by the processor."""
    start, worked = time.perf_counter(), time.thread_time()
    step()
    return time.perf_counter() - start, time.thread_time() - worked


def measure(net: str, repeats: int, steps: int) -> dict[str, list[Taken]]:
    """Bare steps, steps outside the window, the one that learns names, and profiled steps."""
    step = trainer(NETS[net]())
    for _ in range(3):
        step()
    taken: dict[str, list[Taken]] = {kind: [] for kind in ("bare", *KINDS)}
    for _ in range(repeats):
        gc.collect()
        # Short turns, each with a step to settle: what else the machine does hits both alike.
        for _ in range(max(1, steps // 5)):
            step()
            taken["bare"] += [timed(step) for _ in range(5)]
            with recorded(StepWindow(FAR, FAR + 1)):
                step()
                taken["outside"] += [timed(step) for _ in range(5)]
        with recorded(StepWindow(2, 4 + steps)):
            step()
            step()  # at its end the window begins
            taken["learning"].append(timed(step))
            step()  # at the end of the one before the profiler was started
            taken["profiled"] += [timed(step) for _ in range(steps - 1)]
            step()  # at its end the profiler is stopped
        for kind in ("least", "torch"):
            with torch_profiler(is_light=kind == "least"):
                step()
                taken[kind] += [timed(step) for _ in range(steps - 1)]
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nets", nargs="+", choices=list(NETS), default=list(NETS))
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'':8}{'bare step':>12}{'':>4}x of bare: {', '.join(KINDS)}")
    print(f"{'':8}{'':>12}{'':>4}{'by the clock':<42}by the processor")
    for net in given.nets:
        taken = measure(net, given.repeats, 40 if net == "tiny" else 5)
        bare = [statistics.median(column) for column in zip(*taken["bare"], strict=True)]
        cells = []
        for column in (0, 1):
            ratios = [
                statistics.median(each[column] for each in taken[kind]) / bare[column]
                for kind in KINDS
            ]
            cells.append("  ".join(f"{ratio:6.3f}" for ratio in ratios))
        print(f"{net:8}{1e3 * bare[0]:9.1f} ms{'':>4}{cells[0]}    {cells[1]}", flush=True)


if __name__ == "__main__":
    main()
