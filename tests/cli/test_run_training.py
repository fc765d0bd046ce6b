"""``sonde run`` on a real training, with the real capture."""

import json
import re
import signal
import subprocess
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from tests.warm_python.starting import warm_python

from sonde.dump.lineage import read_lineage

pytestmark = pytest.mark.slow

SRC = Path(__file__).parents[2] / "src"
ENVIRONMENT = {"PYTHONPATH": str(SRC), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"}

TRAINING = """
    import sys
    import torch

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        loss = net(torch.arange(8.0).reshape(2, 4)).square().mean()
        loss.backward()
        optimizer.step()
        print(step, loss.item().hex())
    print(sys.argv[1:])
    {end}
    """


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(dedent(TRAINING.format(end="sys.exit(7)")))
    (tmp_path / "broken.py").write_text(dedent(TRAINING.format(end="net(torch.ones(2, 5))")))
    return tmp_path


def python(folder: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [warm_python(), *words],
        cwd=folder,
        env={**ENVIRONMENT, "HOME": str(folder), **environ},
        capture_output=True,
        text=True,
    )


def files(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.rglob(pattern))


def frames(trace: str) -> list[str]:
    """The places in a traceback, but for torch's detour when there are hooks on modules."""
    places = re.findall(r'File "(.+)", line \d+, in (\w+|<module>)', trace)
    return [f"{file} {name}" for file, name in places if name != "inner"]


def test_a_training_prints_the_same_and_leaves_a_dump(folder: Path) -> None:
    plain = python(folder, "train.py", "--dump-to", "x")
    words = ("--dump-to", "out", "--dump-steps", "1", "train.py", "--dump-to", "x")
    dumped = python(folder, "-m", "sonde", "run", *words)
    assert (dumped.returncode, dumped.stdout) == (7, plain.stdout)
    assert plain.returncode == 7
    (before,) = files(folder / "out", "addmm.*_0-Linear_*.output.0.*.npy")
    (after,) = files(folder / "out", "relu.*.output.0.*.npy")
    assert np.array_equal(np.maximum(np.load(before), 0), np.load(after))
    steps = {path.parent.name for path in files(folder / "out" / "rank_0" / "train", "*.npy")}
    assert steps - {"constants"} == {"1"}
    metadata = json.loads(
        (folder / "out" / "rank_0" / ".dump_metadata" / "data_dump.json").read_text()
    )
    assert metadata["common_dump_settings"]["iteration"] == "1"
    lineage = read_lineage(folder / "out" / "rank_0" / ".dump_metadata")
    assert lineage is not None
    assert (lineage.script, lineage.arguments) == ("train.py", ["--dump-to", "x"])


def test_an_exception_of_the_program_is_shown_as_it_is_after_the_dump_is_whole(
    folder: Path,
) -> None:
    plain = python(folder, "broken.py")
    dumped = python(folder, "-m", "sonde", "run", "--dump-to", "out", "broken.py")
    assert (dumped.returncode, dumped.stdout) == (1, plain.stdout)
    assert frames(dumped.stderr) == frames(plain.stderr)
    assert dumped.stderr.splitlines()[-1] == plain.stderr.splitlines()[-1]
    assert files(folder / "out", "*.npy")
    assert not files(folder / "out", "*.partial*")


def test_an_interrupt_ends_the_program_as_without_sonde_after_the_dump_is_whole(
    folder: Path,
) -> None:
    end = "import os, signal; os.kill(os.getpid(), signal.SIGINT); torch.ones(3).add(1)"
    (folder / "train.py").write_text(dedent(TRAINING.format(end=end)))
    plain = python(folder, "train.py")
    done = python(folder, "-m", "sonde", "run", "--dump-to", "out", "train.py")
    # Where tabulate is installed, torch imports it at the exit, and Python then forgets the signal.
    assert done.returncode == plain.returncode
    assert plain.returncode in (-signal.SIGINT, 1)
    assert done.stderr.splitlines()[-1] == "KeyboardInterrupt"
    assert frames(done.stderr)[0] == f"{folder}/train.py <module>"
    assert len(files(folder / "out" / "rank_0" / "train", "relu.*.output.0.*.npy")) == 3


@pytest.mark.document(42)
def test_a_file_named_by_the_environment_is_used(folder: Path) -> None:
    config = {
        "common_dump_settings": {
            "dump_mode": 1,
            "path": str(folder / "out"),
            "net_name": "Net",
            "iteration": "0",
            "input_output": 2,
            "kernels": ["relu"],
            "support_device": [0],
        },
        "e2e_dump_settings": {"enable": True},
    }
    (folder / "dump.json").write_text(json.dumps(config))
    done = python(folder, "-m", "sonde", "run", "train.py", MINDSPORE_DUMP_CONFIG="dump.json")
    assert done.returncode == 7
    assert "sonde: dumping as configured in dump.json (from MINDSPORE_DUMP_CONFIG)" in done.stderr
    names = {path.name.partition(".")[0] for path in files(folder / "out", "*.output.*.npy")}
    assert names == {"relu"}


def test_a_wrong_file_stops_before_the_training_starts(folder: Path) -> None:
    (folder / "dump.json").write_text('{"common_dump_settings": {"dump_mode": 5}}')
    done = python(folder, "-m", "sonde", "run", "--dump", "dump.json", "train.py")
    assert done.returncode == 2
    assert done.stdout == ""
    assert all(line.startswith("sonde: dump.json: ") for line in done.stderr.splitlines())


def test_each_rank_under_torchrun_dumps_its_own(folder: Path) -> None:
    (folder / "train.py").write_text(dedent(TRAINING.format(end="")))
    launcher = ("-m", "torch.distributed.run", "--nproc-per-node", "2")
    words = ("-m", "sonde", "run", "--dump-to", "out", "--dump-steps", "0", "train.py")
    done = python(folder, *launcher, *words, OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr
    assert files(folder / "out" / "rank_0", "*.npy")
    assert files(folder / "out" / "rank_1", "*.npy")
