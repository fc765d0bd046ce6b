"""Distributed tensors: FSDP2 and tensor parallelism on two ranks, observed and not."""

from __future__ import annotations

import csv
import io
import os
import socket
import subprocess
from pathlib import Path

import pytest
import torch
from tests.adapters.torch.tensors.distributed_training import make
from tests.warm_python.starting import warm_python

from sonde.cli.show_csv import write_csv
from sonde.dump.reader import Dump

PROGRAM = Path(__file__).with_name("distributed_training.py")


def run(*words: str) -> tuple[list[str], str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    done = subprocess.run(
        [warm_python(), *words, str(PROGRAM), str(port)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=800,
        check=True,
    )
    return sorted(done.stdout.splitlines()), done.stderr


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str], str]:
    path = tmp_path_factory.mktemp("distributed") / "out"
    return path, *run("-m", "sonde", "run", "--stats", "--dump-to", str(path))


def rows(path: Path, rank: int, step: int) -> list[dict[str, str]]:
    out = io.BytesIO()
    write_csv(Dump(path).tensors(rank=rank, step=step), out)
    return list(csv.DictReader(io.StringIO(out.getvalue().decode())))


def test_the_training_is_the_same_bit_for_bit(dump: tuple[Path, list[str], str]) -> None:
    _, printed, said = dump
    assert len(printed) == 2
    assert run()[0] == printed
    starts = sorted(line.partition(": dumped steps 0-3: ")[0] for line in said.splitlines())
    assert starts == ["sonde: rank 0", "sonde: rank 1"]


@pytest.mark.parametrize("step", [0, 2])
def test_parameters_have_the_statistics_of_the_part_of_each_rank(
    dump: tuple[Path, list[str], str], step: int
) -> None:
    path, _, _ = dump
    whole = make()[0].weight
    for rank, part in enumerate(whole.chunk(2)):
        found = [
            row
            for row in rows(path, rank, step)
            if row["Shape"] == "(4,4)"
            and float(row["Max Value"]) == part.max().item()
            and float(row["Min Value"]) == part.min().item()
        ]
        assert found
    updates = [row for row in rows(path, 0, step) if "optimizer-SGD" in row["Op Name"]]
    assert {row["IO"] for row in updates} == {"input", "output"}


def test_the_graph_says_how_tensors_are_distributed(dump: tuple[Path, list[str], str]) -> None:
    graphs = Dump(dump[0]).graphs(rank=0)
    said = {
        value
        for graph in graphs
        for node in graph.nodes
        for name, value in node.attributes
        if name.startswith("placement.")
    }
    assert "Shard(dim=0) of [8, 4] over 2 ranks from 0 by 1" in said
    assert "Shard(dim=1) of [2, 8] over 2 ranks from 0 by 1" in said


def test_the_result_of_an_asynchronous_collective_is_read_once_the_program_waited(
    dump: tuple[Path, list[str], str],
) -> None:
    found = rows(dump[0], 0, 1)
    begun = [row for row in found if row["Op Type"] == "_c10d_functional_all_reduce"]
    assert {row["IO"] for row in begun} == {"input"}
    (product,) = [row for row in found if row["Op Type"] == "mul" and row["IO"] == "output"][:1]
    (read,) = [
        row
        for row in found
        if row["Op Name"] == product["Op Name"] and row["IO"] == "input" and row["Slot"] == "0"
    ]
    assert float(read["Max Value"]) * 0.5 == pytest.approx(float(product["Max Value"]))
    assert torch.isfinite(torch.tensor(float(read["Max Value"])))


def test_a_dump_has_the_values_of_a_distributed_tensor_before_the_next_write(
    tmp_path: Path,
) -> None:
    script = tmp_path / "writes.py"
    script.write_text(WRITES)
    words = [warm_python(), "-m", "sonde", "run", "--dump-to", str(tmp_path / "d"), str(script)]
    subprocess.run(words, check=True, capture_output=True, timeout=800)
    sums = {
        record.key.op.rpartition("/")[2]: set(record.numpy().reshape(-1).tolist())
        for record in Dump(tmp_path / "d").tensors(step=0)
        if record.key.io == "output" and record.key.op.startswith("Default/add_")
    }
    assert sums == {f"add_-op{number}": {number + 1.0} for number in range(20)}


WRITES = """
import torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate
dist.init_process_group("gloo", init_method="tcp://127.0.0.1:0", rank=0, world_size=1)
mesh = init_device_mesh("cpu", (1,))
net = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(net.parameters())
net(torch.ones(1, 2)).sum().backward()
total = DTensor.from_local(torch.zeros(200_000), mesh, [Replicate()]) * 1
for _ in range(20):
    total.add_(1)
optimizer.step()
"""
