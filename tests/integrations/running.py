"""Runs the programs of this folder, which train with real frameworks."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.warm_python.starting import warm_python

PROGRAMS = Path(__file__).parent / "programs"
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DISABLE_MLFLOW_INTEGRATION": "1",
    "KERAS_BACKEND": "torch",
}

# Importing transformers' Trainer takes longer than all of a test of another framework: one test of
# it runs wherever accelerate is installed, the others where all libraries are.
in_whole = pytest.mark.skipif(find_spec("trl") is None, reason="run by make integrations")


@dataclass(frozen=True)
class Ended:
    """A program that has ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def results(self) -> dict[str, Any]:
        """What the program printed as JSON in its last line."""
        assert self.code == 0, self.stderr
        found: dict[str, Any] = json.loads(self.stdout.splitlines()[-1])
        return found

    @property
    def said(self) -> list[str]:
        """The lines of Sonde."""
        return [line for line in self.stderr.splitlines() if line.startswith("sonde: ")]


def run(
    program: str | Path,
    *words: str,
    cwd: Path,
    command: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
) -> Ended:
    """Run a program of this folder in ``cwd``; ``command``: such as ``-m sonde run``."""
    ended = subprocess.run(
        [warm_python(), *command, str(PROGRAMS / program), *words],
        cwd=cwd,
        env={**os.environ, **OFFLINE, **(variables or {})},
        capture_output=True,
        text=True,
        timeout=800,
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def run_two_ranks(program: str, *words: str, cwd: Path) -> tuple[list[dict[str, Any]], str]:
    """What two ranks of a program printed as JSON, and their stderr."""
    launch = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    ended = run(program, *words, cwd=cwd, command=launch)
    assert ended.code == 0, ended.stderr
    lines = [line for line in ended.stdout.splitlines() if line.startswith('{"bare"')]
    assert len(lines) == 2
    return [json.loads(line) for line in lines], ended.stderr


def logged_texts(directory: Path) -> list[bytes]:
    """The findings in event files of TensorBoard."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(directory)).Reload().Tensors("sonde/finding/text_summary")
    return [each.tensor_proto.string_val[0] for each in found]


def of_the_last_rank(results: list[dict[str, Any]]) -> bool:
    """Whether both of two ranks have findings, all of rank 1: its own, and rank 0 those of its
    diagnosis."""
    named = {each["rank"] for result in results for each in result["findings"]}
    return all(each["findings"] for each in results) and 1 in named <= {None, 1}
