"""The compiler's caches on disk: observed code never gets in, plain code is shared."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sonde.dump.reader import Dump

pytestmark = pytest.mark.slow

PROGRAM = """
import json, sys, torch
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 2))
run = torch.compile(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
losses = []
for _ in range(3):
    optimizer.zero_grad()
    loss = run(torch.randn(5, 4)).square().mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
counts = torch._dynamo.utils.counters
hits = counts["inductor"]["fxgraph_cache_hit"] + counts["aot_autograd"]["autograd_cache_hit"]
print(json.dumps({"losses": losses, "hits": hits}))
"""


def run(place: Path, *words: str) -> dict[str, object]:
    (place / "train.py").write_text(PROGRAM)
    command = [sys.executable, *words, "train.py"]
    environment = {
        **os.environ,
        "TORCHINDUCTOR_CACHE_DIR": str(place / "cache"),
        "TORCHINDUCTOR_FX_GRAPH_CACHE": "1",
    }
    done = subprocess.run(
        command, cwd=place, env=environment, capture_output=True, text=True, check=True
    )
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    assert "[compiled" not in done.stderr
    return found


def observed(place: Path, name: str, steps: str) -> dict[str, object]:
    options = ("--stats", "--dump-to", name, "--dump-steps", steps)
    return run(place, "-m", "sonde", "run", *options)


def cached_bytes(place: Path) -> bytes:
    files = [
        *(place / "cache" / "fxgraph").rglob("*"),
        *(place / "cache" / "aotautograd").rglob("*"),
    ]
    return b"".join(file.read_bytes() for file in files if file.is_file())


def test_code_goes_into_and_comes_out_of_the_cache_without_observers(tmp_path: Path) -> None:
    first = observed(tmp_path, "one", "all")
    assert first["hits"] == 0
    assert b"sonde" not in cached_bytes(tmp_path)
    # Nothing of it is found by a run that knows nothing of Sonde, which leaves plain code.
    plain = run(tmp_path)
    assert plain["hits"] == 0
    assert plain["losses"] == first["losses"]
    # Plain code is taken from the cache, for the steps that are not wanted; observed code is not.
    some = observed(tmp_path, "two", "1")
    assert some["hits"] == 2  # forward and backward
    assert some["losses"] == plain["losses"]
    assert Dump(tmp_path / "two").steps() == (1,)
    assert b"sonde_compiled" not in cached_bytes(tmp_path)
    again = run(tmp_path)
    assert again["hits"] != 0
    assert again["losses"] == plain["losses"]
