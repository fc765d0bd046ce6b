"""What ``sonde run`` logs of a real training, at each level."""

from __future__ import annotations

import subprocess
from pathlib import Path
from textwrap import dedent

import pytest
from tests.warm_python.starting import warm_python

pytestmark = pytest.mark.slow

SRC = Path(__file__).parents[2] / "src"

TRAINING = """
    import logging
    import torch

    logging.basicConfig(level=logging.DEBUG)
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        net(torch.arange(8.0).reshape(2, 4)).square().mean().backward()
        optimizer.step()
    """
OPTIONS = ("--dump-to", "out", "--dump-steps", "0-1", "--dump-ops", "relu", "--dump-ops", "nosuch")


def run(folder: Path, **environ: str) -> tuple[str, str]:
    """Standard error, and the log file, of a training with a pattern that matches nothing."""
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text(dedent(TRAINING))
    done = subprocess.run(
        [warm_python(), "-m", "sonde", "run", *OPTIONS, "train.py"],
        cwd=folder,
        env={
            "PYTHONPATH": str(SRC),
            "PATH": "/usr/bin:/bin",
            "HOME": str(folder),
            "GLOG_logtostderr": "0",
            "GLOG_log_dir": str(folder / "logs"),
            **environ,
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    (file,) = (folder / "logs" / "rank_0" / "logs").iterdir()
    return done.stderr, file.read_text()


@pytest.mark.document(
    55,
    says="adjust the log level to get more information",
    how="INFO has the configuration, steps, matches, files and times, DEBUG also names and JSON",
)
def test_the_lower_levels_tell_what_happens(tmp_path: Path) -> None:
    screen, file = run(tmp_path, GLOG_v="0")
    for said in (
        "command: sonde run",
        "rank 0 dumps: tensors of relu, nosuch; inputs and outputs; steps 0-1; written in the ",
        "ops are recognised by native code, statistics computed by ",
        "files are written by native code, in the background; at most ",
        "step 0 begins; observed",
        "ops observed; ",
        "step 2 begins; not wanted",
        ": not observed",
        "graph 0: ",
        "the files of step 1 go to ",
        "written in all to ",
        '"kernels": [',
    ):
        assert said in file, said
    assert "matched: Default/" in file
    assert "sonde: 'nosuch' matched no op" in screen
    assert "step 0 begins" not in screen


@pytest.mark.document(57)
def test_the_file_is_complete_and_the_level_of_errors_silences(tmp_path: Path) -> None:
    screen, file = run(tmp_path / "warning")
    assert screen.count("'nosuch' matched no op") == 1
    assert file.count("'nosuch' matched no op") == 1
    assert "[WARNING] SONDE(" in file
    assert "[INFO]" not in file
    assert run(tmp_path / "error", GLOG_v="3") == ("", "")
