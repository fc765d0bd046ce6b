"""Times msprobe on one net, for ``overhead.py``: run with a Python that has mindstudio-probe.

Prints one JSON object of ratios to the bare step, measured in this process, interleaved.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
from msprobe.pytorch import PrecisionDebugger
from nets import NETS

VARIANTS = {
    "msprobe statistics L1": {"task": "statistics", "level": "L1"},
    "msprobe statistics mix": {"task": "statistics", "level": "mix"},
    "msprobe tensor L1": {"task": "tensor", "level": "L1"},
}


def main(net: str, repeats: int) -> None:
    """One variant per process: the debugger is a singleton, so this script calls itself."""
    import subprocess

    ratios = {}
    for name in VARIANTS:
        done = subprocess.run(
            [sys.executable, __file__, net, str(repeats), name], capture_output=True, text=True
        )
        if done.returncode == 0:
            ratios[name] = float(done.stdout.split()[-1])
    print(json.dumps(ratios))


def one(net: str, repeats: int, name: str) -> float:
    torch.set_num_threads(1)
    module, (inputs, targets), loss_function = NETS[net]()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4)
    place = Path(tempfile.mkdtemp(prefix="msprobe-"))
    variant = VARIANTS[name]
    config = place / "config.json"
    config.write_text(
        json.dumps(
            {
                "task": variant["task"],
                "dump_path": str(place / "dump"),
                "rank": [],
                "step": [],
                "level": variant["level"],
                variant["task"]: {"scope": [], "list": [], "data_mode": ["all"]},
            }
        )
    )
    debugger = PrecisionDebugger(config_path=str(config))

    def step(observed: bool) -> float:
        start = time.perf_counter()
        if observed:
            debugger.start(model=module)
        optimizer.zero_grad()
        loss_function(module(inputs), targets).backward()
        optimizer.step()
        if observed:
            debugger.stop()
            debugger.step()
        return time.perf_counter() - start

    bare, probed = [], []
    with contextlib.redirect_stdout(io.StringIO()):
        for _ in range(2):
            step(False)
        bare = [step(False) for _ in range(repeats)]
        step(True)
        probed = [step(True) for _ in range(repeats)]
    shutil.rmtree(place, ignore_errors=True)
    return statistics.median(probed) / statistics.median(bare)


if __name__ == "__main__":
    if len(sys.argv) == 4:
        print(one(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
    else:
        main(sys.argv[1], int(sys.argv[2]))
