"""Searches in real processes, for the tests beside this file."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

PYTHON = sys.executable
ENVIRONMENT = {
    name: value for name, value in os.environ.items() if not name.startswith(("SONDE_", "COLUMNS"))
}


def started(directory: Path, *words: str) -> subprocess.Popen[str]:
    """``sonde tune`` with these words, running in that directory."""
    return subprocess.Popen(
        [PYTHON, "-m", "sonde", "tune", *words],
        cwd=directory,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def tuned(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The same, to its end."""
    process = started(directory, *words)
    output, errors = process.communicate(timeout=800)
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def configured(directory: Path, script: str, *lines: str, name: str = "train.py") -> Path:
    """A script and a configuration that runs it; further lines are added to the latter."""
    (directory / name).write_text(script)
    path = directory / "config.yaml"
    program = "sh" if name.endswith(".sh") else f"{PYTHON} -S -E" if _is_plain(script) else PYTHON
    text = [f"command: {program} {name}", "summary_base_dir: out", *lines]
    path.write_text("\n".join(text) + "\n")
    return path


def _is_plain(script: str) -> bool:
    """Whether a script needs nothing but the standard library, and so can start fast."""
    return "sonde" not in script and "torch" not in script


QUADRATIC = """\
import sys
x = float(sys.argv[sys.argv.index("--x") + 1])
print("loss:", (x - 0.3) ** 2)
"""
RANDOM_X: Sequence[str] = (
    "tuner: {name: random, args: {seed: 0}}",
    "parameters: {x: {bounds: [0, 1], type: float, argument: --x}}",
)


def example(home: Path | str, summaries: Path | str) -> str:
    """The configuration of the document, with its script and its results in these places."""
    return f"""\
command: sh {home}/run_alexnet_ascend.sh
summary_base_dir: {summaries}
tuner:
    name: gp
target:
    group: metric
    name: Accuracy
    goal: maximize
parameters:
    learning_rate:
        bounds: [0.00001, 0.001]
        type: float
    batch_size:
        choice: [32, 64, 128, 256]
        type: int
    momentum:
        source: user_defined
        choice: [0.8, 0.9]
        type: float
"""
