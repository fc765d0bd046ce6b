"""Times msprobe's monitor (weights' gradients) on one net, for ``guard.py``.

Run with a Python that has mindstudio-probe and torch. Prints the ratio of the median processor time
of the training thread to that of the bare step, measured before it in this process.
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
from msprobe.core.monitor_v2.trainer import TrainerMonitorV2
from nets import NETS


def ratio(net: str, repeats: int) -> float:
    torch.set_num_threads(1)
    module, (inputs, targets), loss_function = NETS[net]()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4)
    place = Path(tempfile.mkdtemp(prefix="msprobe-"))
    config = place / "config.json"
    monitors = {"weight_grad": {"enabled": True, "ops": ["norm", "nans"]}}
    config.write_text(
        json.dumps({"framework": "pytorch", "output_dir": str(place), "monitors": monitors})
    )

    def train(steps: int) -> list[float]:
        found = []
        for _ in range(steps):
            start = time.thread_time()
            optimizer.zero_grad()
            loss_function(module(inputs), targets).backward()
            optimizer.step()
            found.append(time.thread_time() - start)
        return found

    # Its monitor cannot be started twice in a process, so that variants are not interleaved.
    with contextlib.redirect_stdout(io.StringIO()):
        train(3)
        bare = train(3 * repeats)
        monitor = TrainerMonitorV2(str(config), fr="pytorch")
        monitor.start(model=module, optimizer=optimizer)
        train(3)
        monitored = train(3 * repeats)
        monitor.stop()
    shutil.rmtree(place, ignore_errors=True)
    return statistics.median(monitored) / statistics.median(bare)


if __name__ == "__main__":
    print(ratio(sys.argv[1], int(sys.argv[2])))
