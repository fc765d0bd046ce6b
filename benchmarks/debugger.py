"""What the debugger costs: ratios to the bare training step, all taken in one run.

    python benchmarks/debugger.py [--nets gpt resnet tiny] [--repeats 15]

A server is started; its page is not open. Variants are interleaved, one thread, each between two
series of bare steps, with whose mean it is compared: a machine that is slower for a while is slower
for both. Medians (and quartiles) of the wall time of a step and of the training thread's processor
time. The last column is the debugger's own estimate of a step without it, as a ratio to the bare
step: 1 is right. It is a median over all steps of the series, including the first three, in which
ops are learned: --steps 16 shows later estimates. "bare, once more" is without Sonde, too, and
shows the error of the measurement.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import statistics
import time
from collections.abc import Callable, Iterator

import torch
from nets import NETS, trainer

from sonde.adapters.torch.attach import attach
from sonde.debugger.initial_watchpoints import recommended_draft
from sonde.debugger.launch.server_process import ServerProcess
from sonde.debugger.settings import DebuggerOptions
from sonde.watch.conditions import RECOMMENDED
from sonde.wire.shapes import ConditionSpec, WatchpointSpec
from sonde.wire.watchpoints import WatchpointDraft

# The first steps are observed whatever is asked.
_LEARNING_STEPS = 3


def _specs(drafts: list[WatchpointDraft]) -> tuple[WatchpointSpec, ...]:
    """Watchpoints that list hits and never pause the training."""
    return tuple(
        WatchpointSpec(number, draft.name, draft.conditions, draft.ops, break_after=0)
        for number, draft in enumerate(drafts, 1)
    )


def _conditions(*conditions: ConditionSpec) -> tuple[WatchpointSpec, ...]:
    return _specs([WatchpointDraft("", (condition,)) for condition in conditions])


VARIANTS: dict[str, tuple[WatchpointSpec, ...] | None] = {
    "bare": None,
    "bare, once more": None,
    "attached, no watchpoint": (),
    "weights and gradients, recommended": _specs(
        [recommended_draft(each) for each in RECOMMENDED if each.target in ("weight", "gradient")]
    ),
    "tensor overflow on all ops": _conditions(ConditionSpec("tensor_overflow")),
    "everything recommended": _specs([recommended_draft(each) for each in RECOMMENDED]),
    "five conditions on all ops": _conditions(
        ConditionSpec("tensor_overflow"),
        ConditionSpec("tensor_too_large", {"abs_mean_gt": 1e30}),
        ConditionSpec("tensor_too_small", {"abs_mean_lt": 0.0}),
        ConditionSpec("tensor_all_zero"),
        ConditionSpec(
            "tensor_range",
            {"range_start_inclusive": -1, "range_end_inclusive": 1, "range_percentage_lt": 0.0},
        ),
    ),
}


@contextlib.contextmanager
def _variant(
    server: ServerProcess, watchpoints: tuple[WatchpointSpec, ...] | None, run: str
) -> Iterator[None]:
    if watchpoints is None:
        yield
        return
    options = DebuggerOptions(
        port=server.rank_port,
        pause=False,
        run=run,
        budget_bytes=1 << 30,
        watchpoints=watchpoints,
    )
    with attach(None, starts_at_once=False, debugger=options):
        yield


def _timed(
    step: Callable[[], float],
    server: ServerProcess,
    watchpoints: tuple[WatchpointSpec, ...] | None,
    steps: int,
) -> tuple[float, float]:
    """Seconds of one step, by the clock and of the training thread's own time."""
    run = f"bench-{time.monotonic_ns()}"
    with _variant(server, watchpoints, run):
        if watchpoints is not None:
            for _ in range(_LEARNING_STEPS):
                step()
        gc.collect()
        start, worked = time.perf_counter(), time.thread_time()
        for _ in range(steps):
            step()
        taken, worked = time.perf_counter() - start, time.thread_time() - worked
    return taken / steps, worked / steps


def measure(net: str, server: ServerProcess, names: list[str], repeats: int, steps: int) -> None:
    step = trainer(NETS[net]())
    for _ in range(3):
        step()
    ratios: dict[str, list[tuple[float, ...]]] = {name: [] for name in names}
    bare_seconds = []
    before = _timed(step, server, None, steps)
    for _ in range(repeats):
        for name in names:
            clock, worked = _timed(step, server, VARIANTS[name], steps)
            after = _timed(step, server, None, steps)
            bare, bare_worked = (before[0] + after[0]) / 2, (before[1] + after[1]) / 2
            ratios[name].append((clock / bare, worked / bare_worked))
            bare_seconds.append(after[0])
            before = after
    print(f"{net}: {statistics.median(bare_seconds) * 1e3:.1f} ms a step")
    for name, rows in ratios.items():
        clocks, workeds = zip(*rows, strict=True)
        low, middle, high = statistics.quantiles(clocks, n=4)
        print(
            f"  {name:36} {middle:6.3f}x by the clock ({low:.3f} to {high:.3f})"
            f"  {statistics.median(workeds):6.3f}x of processor time",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nets", nargs="+", default=list(NETS), choices=NETS)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--only", nargs="+", choices=[name for name in VARIANTS if name != "bare"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    os.environ.pop("SONDE_DEBUGGER_TOKEN", None)
    server = ServerProcess(port=0, rank_port=0, pause=False)
    try:
        names = options.only or [name for name in VARIANTS if name != "bare"]
        for net in options.nets:
            measure(net, server, names, options.repeats, options.steps)
    finally:
        server.end()


if __name__ == "__main__":
    main()
