"""Trains in forked children, kills each at a random moment, and checks what is on the disk.

``python -m tests.train.checkpoint.kill_script DIRECTORY FORMAT ASYNC ROUNDS`` prints a JSON object.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
import time
from pathlib import Path

import torch
from torch import nn

from sonde.train import (
    CheckpointConfig,
    LambdaCallback,
    Model,
    ModelCheckpoint,
    RunContext,
    load_checkpoint,
    load_training_state,
    newest_checkpoint,
)


def train(directory: Path, format: str, async_save: bool, pipe: int) -> None:
    network = nn.Linear(256, 256)
    optimizer = torch.optim.SGD(network.parameters(), 1e-3, momentum=0.9)
    x = torch.ones(1, 256)

    def tell(context: RunContext) -> None:
        saved = context.original_args().last_save_ckpt_step
        if saved:
            os.write(pipe, int(saved).to_bytes(8, "big"))

    config = CheckpointConfig(
        keep_checkpoint_max=2, format=format, async_save=async_save, crc_check=True
    )
    listed = [ModelCheckpoint("run", directory, config), LambdaCallback(on_train_step_end=tell)]
    model = Model(network, nn.MSELoss(), optimizer)
    model.train(1, [(x, x)] * 1_000_000, listed, resume=directory)


def start(directory: Path, format: str, async_save: bool) -> tuple[int, int]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            train(directory, format, async_save, writing)
        finally:
            os._exit(1)
    os.close(writing)
    return child, reading


def last_told(reading: int) -> int:
    """The last step the child knew to be saved, after the child is gone."""
    told = b""
    while chunk := os.read(reading, 1 << 16):
        told += chunk
    os.close(reading)
    whole = len(told) // 8 * 8
    return int.from_bytes(told[whole - 8 : whole], "big") if whole else 0


def main() -> None:
    directory, format = Path(sys.argv[1]), sys.argv[2]
    async_save, rounds = sys.argv[3] == "async", int(sys.argv[4])
    torch.set_num_threads(1)
    random.seed(3)
    # What torch imports at its first step is imported here, once, and not in every child.
    Model(first := nn.Linear(1, 1), nn.MSELoss(), torch.optim.SGD(first.parameters(), 0.1)).train(
        1, [(torch.ones(1), torch.ones(1))]
    )
    inside = steps = done = 0
    # As many more as it takes until enough of them came in the middle of a save.
    while done < rounds or (inside < rounds // 5 and done < 20 * rounds):
        done += 1
        child, reading = start(directory, format, async_save)
        select.select([reading], [], [], 60)  # at least one checkpoint in each round
        time.sleep(random.random() * 0.03)  # then any moment will do
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        told = last_told(reading)
        inside += any(path.name.endswith(".partial") for path in directory.iterdir())
        newest = newest_checkpoint(directory)
        assert newest is not None
        steps = load_training_state(newest)["position"]["step"]
        assert steps >= told > 0, (steps, told)
        assert load_checkpoint(newest)["weight"].shape == (256, 256)
    left = sorted(path.name for path in directory.iterdir())
    print(json.dumps({"steps": steps, "inside": inside, "left": left}))


if __name__ == "__main__":
    main()
