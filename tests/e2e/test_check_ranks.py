"""``sonde run --check-ranks`` as a user runs it: torchrun, a server, findings, a hang."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sonde.cli.main import main

SCRIPT = """
import os
import time
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(8, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(rank)
for step in range(6):
    while rank == 1 and step == 3 and not os.path.exists("go"):
        time.sleep(0.05)
    optimizer.zero_grad()
    model.module(torch.randn(16, 8)).pow(2).mean().backward()
    dist.barrier()
    optimizer.step()
os.write(1, f"weights {rank} {model.module.weight.sum().item()}\\n".encode())  # in one piece
dist.destroy_process_group()
"""


def _torchrun(script: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["--standalone", "-m", "sonde", "run", *options, str(script)]
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command,
        cwd=script.parent,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_findings_of_a_job_are_printed_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rank 1 stands still until the test has read where the ranks stand."""
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    options = ("--check-ranks", "--hang-after", "1", "--ranks-json", "found.json")
    options += ("--stats", "--dump-to", "out")
    with _torchrun(script, *options) as job:
        assert job.stderr is not None
        lines = []
        for line in job.stderr:
            lines.append(line)
            if "no-progress" in line:
                (tmp_path / "go").touch()
        output = job.stdout.read() if job.stdout is not None else ""
    said = "".join(lines)
    assert job.returncode == 0, said
    assert "sonde: gradients-not-exchanged (established): ranks 0-1 use gradients" in said
    assert "sonde: no-progress (supported): no rank has made progress for" in said
    assert "rank 0 waits in barrier #3 at train.py:" in said
    assert "sonde: 2 ranks compared in 7 steps: 2 findings" in said
    kinds = [each["kind"] for each in json.loads((tmp_path / "found.json").read_text())["findings"]]
    assert sorted(kinds) == ["gradients-not-exchanged", "no-progress"]
    assert main(["ranks", str(tmp_path / "out"), "--json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)["findings"]
    assert found["kind"] == "replicas-differ"
    assert found["evidence"]["last_equal_step"] == -1
    with _torchrun(script) as bare:
        expected, _ = bare.communicate(timeout=100)
    assert sorted(output.splitlines()) == sorted(expected.splitlines())


def test_one_process_is_told_that_there_is_nothing_to_compare(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print('done')")
    command = [sys.executable, "-m", "sonde", "run", "--check-ranks", str(script)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert "--check-ranks had nothing to compare" in done.stderr


def test_option_without_check_ranks_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print('done')")
    command = [sys.executable, "-m", "sonde", "run", "--on-hang", "stop", str(script)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--on-hang needs --check-ranks" in done.stderr


MISMATCHED = """
import datetime
import os
import sys
import time
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=8))
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(8, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(rank)
for step in range(8):
    optimizer.zero_grad()
    model(torch.randn(16, 8)).pow(2).mean().backward()
    optimizer.step()
    time.sleep(0.3)  # A step takes a moment, as that of a real network.
    if sys.argv[1] == "shape" and step == 2:
        dist.all_reduce(torch.ones(3 + rank))
    if sys.argv[1] == "stop" and step == 4 and rank == 1:
        os._exit(3)
"""


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (
            "shape",
            "collectives-differ (established): collective #0 of group world differs in step 3: "
            "rank 1 calls all_reduce (SUM) of 4 float32 at train.py:23, "
            "rank 0 all_reduce (SUM) of 3 float32 at train.py:23",
        ),
        ("stop", "rank-stopped (established): the process of rank 1 has ended after step 4"),
    ],
)
def test_fault_that_ends_the_job_is_named_before_it_ends(
    tmp_path: Path, fault: str, expected: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text(MISMATCHED)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["--standalone", "-m", "sonde", "run", "--check-ranks", str(script), fault]
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=100
    )
    assert f"sonde: {expected}" in done.stderr, done.stderr
    assert done.returncode == 1
