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


def _torchrun(script: Path, *options: str, after: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["--standalone", "-m", "sonde", "run", *options, str(script), *after]
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
    assert "sonde: 2 ranks compared in 6 steps: 2 findings" in said
    kinds = [each["kind"] for each in json.loads((tmp_path / "found.json").read_text())["findings"]]
    assert sorted(kinds) == ["gradients-not-exchanged", "no-progress"]
    assert main(["ranks", str(tmp_path / "out"), "--json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)["findings"]
    assert found["kind"] == "replicas-differ"
    assert found["evidence"]["last_equal_step"] == -1
    with _torchrun(script) as bare:
        expected, _ = bare.communicate(timeout=100)
    assert sorted(output.splitlines()) == sorted(expected.splitlines())


BRANCH = """
import sys
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
torch.manual_seed(1 + rank)
for step in range(4):
    x, y = torch.randn(16, 8), torch.randint(0, 4, (16,))
    optimizer.zero_grad()
    out = model(x)
    if rank == 1 and "branch" in sys.argv:
        out = out.tanh()
    nn.functional.cross_entropy(out, y).backward()
    optimizer.step()
    if rank == 0:
        print((out.detach().argmax(1) == y).float().mean().item())
dist.destroy_process_group()
"""


@pytest.mark.parametrize("branch", ["", "branch"])
def test_dump_tells_a_branch_on_the_rank_from_what_one_rank_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], branch: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text(BRANCH)
    with _torchrun(script, "--stats", "--dump-to", "out", after=(branch,)) as job:
        said = job.communicate(timeout=100)[1]
    assert job.returncode == 0, said
    assert main(["ranks", str(tmp_path / "out"), "--json"]) == (1 if branch else 0)
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert [each["kind"] for each in findings] == (["ops-differ"] if branch else [])
    line = BRANCH.splitlines().index("        out = out.tanh()") + 1
    assert all(f"rank 1 runs an op at train.py:{line} " in each["message"] for each in findings)
    assert all("in step 0 " in each["message"] for each in findings)


def test_one_process_is_told_that_there_is_nothing_to_compare(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print('done')")
    command = [sys.executable, "-m", "sonde", "run", "--check-ranks", str(script)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert "--check-ranks had nothing to compare" in done.stderr


def test_file_of_findings_without_a_directory_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print('done')")
    command = [sys.executable, "-m", "sonde", "run", "--check-ranks", "--ranks-json", "no/f.json"]
    done = subprocess.run(
        [*command, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "--ranks-json no/f.json has no directory" in done.stderr
    assert "Traceback" not in done.stderr


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
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

if sys.argv[1] == "stop":
    init_device_mesh("cpu", (2,))  # Makes the process group.
else:
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=8))
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(8, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(rank)
for step in range(5):
    optimizer.zero_grad()
    model(torch.randn(16, 8)).pow(2).mean().backward()
    optimizer.step()
    if sys.argv[1] == "shape" and step == 2:
        dist.all_reduce(torch.ones(3 + 5 * rank))
    if sys.argv[1] == "stop":
        time.sleep(0.3)  # A step takes a moment, as that of a real network.
        if step == 3 and rank == 0:
            os._exit(3)
dist.destroy_process_group()
"""


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (
            "shape",
            "collectives-differ (established): collective #0 of group world differs in step 3: "
            "rank 1 calls all_reduce (SUM) of 8 float32 at train.py:26, "
            "rank 0 all_reduce (SUM) of 3 float32 at train.py:26",
        ),
        ("stop", "rank-stopped (established): the process of rank 0 has ended after step 3"),
    ],
)
def test_fault_that_ends_rank_0_is_printed_and_written(
    tmp_path: Path, fault: str, expected: str
) -> None:
    """Gloo ends the process of rank 0, by which the server was started."""
    script = tmp_path / "train.py"
    script.write_text(MISMATCHED)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["--standalone", "-m", "sonde", "run", "--check-ranks"]
    command += ["--ranks-json", "found.json", str(script), fault]
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=100
    )
    assert f"sonde: {expected}" in done.stderr, done.stderr
    assert done.returncode == 1
    kinds = [each["kind"] for each in json.loads((tmp_path / "found.json").read_text())["findings"]]
    assert kinds == [expected.partition(" ")[0]]


SPAWNED = """
import socket
import torch
import torch.distributed as dist
from torch import multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel

def train(rank, address):
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=2)
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(rank)
    for step in range(5):
        optimizer.zero_grad()
        model.module(torch.randn(16, 8)).pow(2).mean().backward()
        optimizer.step()
    dist.destroy_process_group()

if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    multiprocessing.spawn(train, (f"tcp://127.0.0.1:{port}",), nprocs=2)
"""


def test_five_steps_of_a_moment_are_compared(tmp_path: Path) -> None:
    """The job ends before its server has started, and its store with it."""
    script = tmp_path / "train.py"
    script.write_text(SPAWNED)
    command = [sys.executable, "-m", "sonde", "run", "--check-ranks", str(script)]
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert "sonde: gradients-not-exchanged (established): ranks 0-1 use" in done.stderr
    assert "sonde: 2 ranks compared in 5 steps: 1 finding" in done.stderr


TWO_JOBS = """
from sonde.adapters.torch.ranks.checking import check_ranks
from sonde.ranks.options import RankOptions

def steps_of_two_jobs():
    for _ in range(2):
        with check_ranks(RankOptions()):
            yield from range(5)
"""


def test_two_jobs_of_one_process_group_have_servers_of_their_own(tmp_path: Path) -> None:
    """The store of the group still has the address of the first server."""
    assert "in range(5):" in SPAWNED
    script = tmp_path / "train.py"
    script.write_text(TWO_JOBS + SPAWNED.replace("in range(5):", "in steps_of_two_jobs():"))
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(script)]
    done = subprocess.run(
        command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("sonde: 2 ranks compared in 5 steps") == 2, done.stderr
