"""Two ranks train with DDP; only the second one executes its steps again. Prints what it found."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import torch
import torch.distributed
import torch.multiprocessing
from tests.adapters.torch.fitting import weights
from tests.adapters.torch.replay.recording import Recorded, recording
from torch import nn
from torch.nn import functional

from sonde.adapters.torch.replay.recorder import StepRecorder
from sonde.adapters.torch.replay.run_again import Replayed, run_again
from sonde.adapters.torch.replay.step_record import StepRecord


class Around(nn.Module):
    """Holds a network that ranks train together, as the modules of Fabric do."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> Any:
        return self.inner(x)


def train(rank: int, how: str) -> list[torch.Tensor]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.2), nn.Linear(6, 2))
    ddp = nn.parallel.DistributedDataParallel(net)
    called: Any = Around(ddp) if how == "around" else ddp
    if how == "compiled":
        called = torch.compile(ddp, backend="eager")
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    torch.manual_seed(rank)
    for number in range(4):
        with ddp.no_sync():
            functional.mse_loss(called(torch.randn(5, 4)), torch.randn(5, 2)).backward()
        x = torch.randn(5, 4)
        if number == 3 and rank == 1:
            x[2, 1] = float("nan")
        functional.mse_loss(called(x), torch.randn(5, 2)).backward()
        optimizer.step()
        optimizer.zero_grad()
    return weights(net)


def work(rank: int, port: str, path: str, how: str) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    bare = train(rank, how)
    found: list[Replayed] = []

    def again(record: StepRecord, recorder: StepRecorder, recorded: Recorded) -> None:
        if rank == 1:
            found.append(run_again(record, recorder=recorder))

    with recording(again) as recorded:
        seen = train(rank, how)
    torch.distributed.destroy_process_group()
    if rank == 1:
        result: dict[str, Any] = {
            "same": all(map(_same_bits, bare, seen)),
            "exact": [each.is_exact for each in found],
            "reasons": sorted({each.kind for one in found for each in one.plain.reasons}),
            "rows": [None if each.rows is None else each.rows.rows for each in found],
            "micro_batches": [each.micro_batch for each in found],
            "errors": [repr(each) for each in recorded.errors],
        }
        with open(path, "w") as file:
            json.dump(result, file)


def _same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.numpy().tobytes() == other.numpy().tobytes()


if __name__ == "__main__":
    torch.multiprocessing.spawn(work, args=tuple(sys.argv[1:]), nprocs=2)
