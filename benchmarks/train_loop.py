"""What ``Model.train`` with ``LossMonitor`` costs against the same loop written by hand.

    python benchmarks/train_loop.py [--nets gpt resnet tiny] [--steps 40]

Three copies of the network train at the same time: the dataset of ``Model.train`` does one step by
hand with each of two copies before it gives a batch, so other programs on the machine affect
all alike. The second copy by hand is the control: its ratio to the first says how far to trust the
other one. One torch thread, medians of the processor time of a step; all print every loss (the
output is discarded), and the losses must be equal.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import statistics
import time
from collections.abc import Iterator
from typing import Any

import torch
from nets import NETS, Net

from sonde.train import LossMonitor, Model

FIRST, CONTROL, MODEL = range(3)


class Race:
    """The copies, and the seconds each of their steps took."""

    def __init__(self, net: Net, steps: int) -> None:
        self.batch, self.loss_fn, self.steps = net[1], net[2], steps
        self.networks = [copy.deepcopy(net[0]) for _ in range(3)]
        self.optimizers = [torch.optim.AdamW(n.parameters(), 1e-4) for n in self.networks]
        self.seconds: list[list[float]] = [[], [], []]
        self.printed = [io.StringIO() for _ in range(3)]

    def run(self) -> None:
        model = Model(self.networks[MODEL], self.loss_fn, self.optimizers[MODEL])
        with contextlib.redirect_stdout(self.printed[MODEL]):
            model.train(1, self.batches(), LossMonitor())
        if len({printed.getvalue() for printed in self.printed}) != 1:
            raise AssertionError("the copies did not compute the same losses")

    def batches(self) -> Iterator[Any]:
        for step in range(1, self.steps + 1):
            order = (FIRST, CONTROL) if step % 2 else (CONTROL, FIRST)
            for runner in order:
                with contextlib.redirect_stdout(self.printed[runner]):
                    started = time.process_time()
                    self.step_by_hand(runner, step)
                    self.seconds[runner].append(time.process_time() - started)
            started = time.process_time()
            yield self.batch
            self.seconds[MODEL].append(time.process_time() - started)

    def step_by_hand(self, runner: int, step: int) -> None:
        inputs, labels = self.batch
        self.optimizers[runner].zero_grad()
        loss = self.loss_fn(self.networks[runner](inputs), labels)
        loss.backward()
        self.optimizers[runner].step()
        print(f"epoch: 1 step: {step}, loss is {loss.item()}", flush=True)

    def median(self, runner: int) -> float:
        return statistics.median(self.seconds[runner][2:])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nets", nargs="+", default=list(NETS), choices=list(NETS))
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'net':8} {'by hand':>12} {'Model.train':>12} {'ratio':>8} {'control':>8}")
    for name in options.nets:
        race = Race(NETS[name](), options.steps * (25 if name == "tiny" else 1))
        race.run()
        hand, control, model = (race.median(runner) for runner in (FIRST, CONTROL, MODEL))
        print(
            f"{name:8} {hand * 1e3:9.2f} ms {model * 1e3:9.2f} ms "
            f"{model / hand:8.3f} {control / hand:8.3f}"
        )


if __name__ == "__main__":
    main()
