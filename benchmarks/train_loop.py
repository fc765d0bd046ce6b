"""What ``Model.train`` with ``LossMonitor`` costs against the same loop written by hand.

    python benchmarks/train_loop.py [--nets gpt resnet tiny] [--steps 40]

Two copies of the network train at the same time: the dataset of ``Model.train`` does one step by
hand before it gives each batch. So whatever else the machine does hits both alike. One torch
thread, medians; both print every loss (to nowhere). The losses of the two must be equal.
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


class Race:
    """The two copies, and the seconds each of their steps took."""

    def __init__(self, net: Net, steps: int) -> None:
        self.batch, self.loss_fn, self.steps = net[1], net[2], steps
        self.networks = [copy.deepcopy(net[0]) for _ in range(2)]
        self.optimizers = [torch.optim.AdamW(n.parameters(), 1e-4) for n in self.networks]
        self.by_hand: list[float] = []
        self.by_model: list[float] = []
        self.outputs = [io.StringIO(), io.StringIO()]

    def run(self) -> None:
        model = Model(self.networks[1], self.loss_fn, self.optimizers[1])
        with contextlib.redirect_stdout(self.outputs[1]):
            model.train(1, self.batches(), LossMonitor())
        if self.outputs[0].getvalue() != self.outputs[1].getvalue():
            raise AssertionError("the two did not compute the same losses")

    def batches(self) -> Iterator[Any]:
        for step in range(1, self.steps + 1):
            with contextlib.redirect_stdout(self.outputs[0]):
                started = time.perf_counter()
                self.hand_step(step)
                self.by_hand.append(time.perf_counter() - started)
            started = time.perf_counter()
            yield self.batch
            self.by_model.append(time.perf_counter() - started)

    def hand_step(self, step: int) -> None:
        inputs, labels = self.batch
        self.optimizers[0].zero_grad()
        loss = self.loss_fn(self.networks[0](inputs), labels)
        loss.backward()
        self.optimizers[0].step()
        print(f"epoch: 1 step: {step}, loss is {loss.item()}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nets", nargs="+", default=list(NETS), choices=list(NETS))
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'net':8} {'by hand':>12} {'Model.train':>12} {'ratio':>7} {'difference':>12}")
    for name in options.nets:
        race = Race(NETS[name](), options.steps * (25 if name == "tiny" else 1))
        race.run()
        hand = statistics.median(race.by_hand[2:])
        model = statistics.median(race.by_model[2:])
        print(
            f"{name:8} {hand * 1e3:9.2f} ms {model * 1e3:9.2f} ms {model / hand:7.3f} "
            f"{(model - hand) * 1e6:9.0f} us"
        )


if __name__ == "__main__":
    main()
