"""One rank of four distributed runs: ``python -m tests.train.rank_script RANK PORT DIR``.

The first run is uninterrupted, the second dies after step 6 (rank 1 before it saved that step, rank
0 after), the third resumes, in the fourth one rank asks to stop. Prints losses and weights.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from tests.train.nets import classifier, data
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from sonde.train import (
    Callback,
    LambdaCallback,
    Model,
    ModelCheckpoint,
    RunContext,
    StopAtTime,
    check_ranks,
)


class DeathError(Exception):
    pass


def die(context: RunContext) -> None:
    if context.original_args().cur_step_num == 6:
        raise DeathError


def train(rank: int, seed: int, listed: list[Callback], resume: Path | None) -> dict[str, Any]:
    network = DistributedDataParallel(classifier(dropout=0.5))
    torch.manual_seed(seed + rank)
    dataset = TensorDataset(*data())
    sampler: DistributedSampler[Any] = DistributedSampler(dataset, shuffle=True, seed=1)
    optimizer = torch.optim.AdamW(network.parameters(), 0.01)
    losses: dict[int, float] = {}

    def note(context: RunContext) -> None:
        arguments = context.original_args()
        losses[arguments.cur_step_num] = float(arguments.net_outputs)
        assert (arguments.device_number, arguments.parallel_mode) == (2, "data_parallel")

    batches = DataLoader(dataset, batch_size=4, sampler=sampler)
    model = Model(network, nn.CrossEntropyLoss(), optimizer)
    model.train(3, batches, [LambdaCallback(on_train_step_end=note), *listed], resume=resume)
    return {"losses": losses, "weights": [v.tolist() for v in network.state_dict().values()]}


def main() -> None:
    rank, port, directory = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    torch.set_num_threads(1)
    address = f"tcp://127.0.0.1:{port}"
    distributed.init_process_group("gloo", init_method=address, rank=rank, world_size=2)
    # The seeds differ, so do the weights of the second layer; the first is frozen at 0.
    network = classifier(seed=rank)
    nn.init.zeros_(network[0].weight)
    checked = check_ranks(network)
    report = {"same": bool(checked), "text": str(checked).splitlines()}
    wrapped = str(check_ranks(DistributedDataParallel(network)))
    report["wrapped"] = wrapped
    whole = train(rank, 100, [], None)
    pair = [ModelCheckpoint("run", directory), LambdaCallback(on_train_step_end=die)]
    try:
        train(rank, 100, pair if rank == 0 else pair[::-1], None)
    except DeathError:
        distributed.barrier()
    saved = sorted(path.name for path in directory.iterdir())
    resumed = train(rank, 200, [ModelCheckpoint("run", directory)], directory)
    # Rank 1's time is over at once, rank 0 has hours: both must end after the first step.
    standard, sys.stdout = sys.stdout, sys.stderr  # StopAtTime prints
    stopped = train(rank, 300, [StopAtTime(0 if rank else 999)], None)
    sys.stdout = standard
    runs = {"whole": whole, "saved": saved, "resumed": resumed, "stopped": stopped}
    print(json.dumps({**runs, "ranks": report}))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
