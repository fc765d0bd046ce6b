"""One rank of a distributed run: ``python -m tests.train.rank_script RANK PORT DIR MODE``.

MODE is ``whole``, ``die`` (rank 0 after step 6, rank 1 after step 5) or ``resume``.
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

from sonde.train import Callback, LambdaCallback, Model, ModelCheckpoint, RunContext


def main() -> None:
    rank, port, directory, mode = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), sys.argv[4]
    torch.set_num_threads(1)
    address = f"tcp://127.0.0.1:{port}"
    distributed.init_process_group("gloo", init_method=address, rank=rank, world_size=2)
    network = DistributedDataParallel(classifier(dropout=0.5))
    torch.manual_seed(100 + rank + (50 if mode == "resume" else 0))
    dataset = TensorDataset(*data())
    sampler: DistributedSampler[Any] = DistributedSampler(dataset, shuffle=True, seed=1)
    optimizer = torch.optim.AdamW(network.parameters(), 0.01)
    losses: dict[int, float] = {}

    def note(context: RunContext) -> None:
        arguments = context.original_args()
        losses[arguments.cur_step_num] = float(arguments.net_outputs)
        assert (arguments.device_number, arguments.parallel_mode) == (2, "data_parallel")

    def die(context: RunContext) -> None:
        # Rank 1 dies before its checkpoint of step 6 is written; rank 0 has one.
        if context.original_args().cur_step_num == 6:
            raise SystemExit(3)

    saver, noter = ModelCheckpoint("run", directory), LambdaCallback(on_train_step_end=note)
    killer = LambdaCallback(on_train_step_end=die)
    listed: list[Callback] = [noter, saver]
    if mode == "die":
        listed = [noter, saver, killer] if rank == 0 else [noter, killer, saver]
    Model(network, nn.CrossEntropyLoss(), optimizer).train(
        3,
        DataLoader(dataset, batch_size=4, sampler=sampler),
        [noter] if mode == "whole" else listed,
        resume=directory if mode == "resume" else None,
    )
    weights = [value.tolist() for value in network.state_dict().values()]
    print(json.dumps({"losses": losses, "weights": weights}))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
