"""Two ranks: each keeps its own step, and the rank whose batch is bad is the one that says so."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.warm_python.starting import warm_python

import sonde

PROGRAM = """
import os, sys, torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

def train(rank, store):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    torch.manual_seed(0)
    net = DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)))
    optimizer = torch.optim.Adam(net.parameters())
    for step in range(5):
        x = torch.randn(16, 4)
        if step == 3 and rank == 1:
            x[5, 2] = -2
        optimizer.zero_grad()
        loss = (torch.log(x + 20 * (x != -2)).sum(1) - net(x)[:, 0]).square().mean()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(train, (sys.argv[1],), nprocs=2)
"""


@pytest.mark.slow
def test_each_rank_keeps_its_own_step(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    command = [warm_python(), "-m", "sonde", "run", "--guard", "train.py", str(tmp_path / "store")]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "RANK": ""}
    )
    assert done.returncode == 0, done.stderr
    lines = {
        rank: next(line for line in done.stderr.splitlines() if f"rank {rank}: step 3: " in line)
        for rank in (0, 1)
    }
    assert "the loss is nan" in lines[1]
    assert "from row 5 of 16 rows of the batch" in lines[1]
    assert "it came from another rank" in lines[0]
    for rank in (0, 1):
        assert len(sonde.signals(tmp_path / "sonde_steps", rank)) == 5
        assert (tmp_path / "sonde_steps" / f"step_3.rank_{rank}" / "manifest.json").is_file()


SHARDED = (
    PROGRAM.replace(
        "from torch.nn.parallel import DistributedDataParallel",
        "from torch.distributed.fsdp import fully_shard",
    )
    .replace("DistributedDataParallel(", "sharded(")
    .replace(
        "def train(",
        """def sharded(net):
    for each in (net[0], net[2], net):
        fully_shard(each)
    return net

def train(""",
    )
)


@pytest.mark.slow
def test_sharded_weights_are_monitored_and_the_line_says_what_cannot_be_replayed(
    tmp_path: Path,
) -> None:
    (tmp_path / "train.py").write_text(SHARDED)
    command = [warm_python(), "-m", "sonde", "run", "--guard", "train.py", str(tmp_path / "store")]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "RANK": ""}
    )
    assert done.returncode == 0, done.stderr
    for rank in (0, 1):
        line = next(each for each in done.stderr.splitlines() if f"rank {rank}: step 3: " in each)
        assert "it cannot be executed again: it would have to wait for other ranks" in line
        assert "guard failed" not in done.stderr
        signals = sonde.signals(tmp_path / "sonde_steps", rank)
        assert (signals["grad_norm"][:3] > 0).all()
        assert (signals["weight_norm"][:3] > 0).all()
        assert (signals["update_ratio"][:3] > 0).all()
