"""With little address space left, files do not wait in the memory that the training needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sonde.dump.writing import free_memory

TRAINING = """
import resource, sys
from pathlib import Path
import torch
from torch import nn
from sonde.adapters.torch.attach import attach
from sonde.capture.options import config_from_options

torch.set_num_threads(1)
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU())
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

def step():
    net(torch.ones(1024, 256)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()

def train():
    step()
    step()
    pages = int(open("/proc/self/statm").read().split()[0])
    limit = pages * resource.getpagesize() + 32 * 1024 * 1024
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    for _ in range(12):
        step()
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

if sys.argv[1] == "bare":
    train()
else:
    with attach(config_from_options(Path(sys.argv[1]), {}, net_name="Net"), starts_at_once=False):
        train()
print(sum(each.double().sum().item() for each in net.parameters()))
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")
def test_a_training_with_little_address_space_left_ends_as_without_sonde(tmp_path: Path) -> None:
    outputs = []
    for where in ("bare", str(tmp_path)):
        done = subprocess.run(
            [sys.executable, "-c", TRAINING, where], capture_output=True, text=True, timeout=800
        )
        assert done.returncode == 0, done.stderr
        assert all(line.startswith("sonde: dumped ") for line in done.stderr.splitlines())
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1]
    assert len(list(tmp_path.glob("rank_0/Net/*/*"))) == 14


def test_memory_is_scarce_when_little_is_left_or_much_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for left, waiting, scarce in (
        (None, 2**40, False),
        (2**30, 2**20, False),
        (2**30, 2**29, True),
        (2**24, 2**20, True),
        (2**24, 2**19, False),  # So few bytes take nothing from the training.
    ):
        monkeypatch.setattr(free_memory, "left_bytes", lambda left=left: left)
        assert free_memory.is_scarce(waiting) is scarce


def test_the_limit_of_the_cgroup_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = tmp_path / "mounted" / "pods" / "one"
    inner.mkdir(parents=True)
    (inner / "memory.max").write_text("max\n")
    (inner.parent / "memory.max").write_text("123456789\n")
    (tmp_path / "cgroup").write_text("0::/pods/one\n")
    monkeypatch.setattr(free_memory, "_CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(free_memory, "_MOUNTED", tmp_path / "mounted")
    assert free_memory.most_bytes() == 123456789
