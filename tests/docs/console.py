"""Runs the console blocks of a page, and writes into it what the commands print.

    python -m tests.docs.console docs/tutorials/loss-is-nan.md

In a block of kind ``console`` a line that begins with ``$`` is a command; what follows is its
output, both streams. The commands of a page run one after the other in a folder that has a copy of
``examples/tutorials``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "examples" / "tutorials"
FOLDER = "/home/me/tutorials"
BLOCK = re.compile(r"(?ms)^```console\n(.*?)^```\n")
COMMAND = re.compile(r"(?m)^\$ (.+)\n((?:(?!\$ ).*\n)*)")
# What differs from run to run or from machine to machine, and what a page has in its place.
DIFFERS = (
    (re.compile(r"/tmp/sonde-compare-\w+"), "/tmp/sonde-compare"),
    (re.compile(r"(?m)^W\d{4} .*\n"), ""),  # torchrun on its number of threads
)
# The last digits of errors depend on the processor; tests compare the rest.
ERROR = re.compile(r"\b\d(?:\.\d+)?e[-+]\d\d\b")


@dataclass(frozen=True)
class Command:
    """A command of a page and its output."""

    text: str
    output: str


def commands(page: str) -> list[Command]:
    """The commands of a page, in order."""
    return [Command(found[1], found[2]) for block in BLOCK.findall(page) for found in _found(block)]


def _found(block: str) -> list[re.Match[str]]:
    return list(COMMAND.finditer(block))


def run(text: str, folder: Path) -> str:
    """What a command prints in ``folder``."""
    ended = subprocess.run(
        ["bash", "-c", text],
        cwd=folder,
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "COLUMNS": "120",
            "OMP_NUM_THREADS": "1",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=800,
    )
    shown = ended.stdout.replace(str(folder), FOLDER)
    for pattern, instead in DIFFERS:
        shown = pattern.sub(instead, shown)
    return "".join(f"{line.rstrip()}\n" for line in shown.splitlines())


def prepared(folder: Path) -> Path:
    """A folder below ``folder`` with the scripts of the tutorials."""
    place = folder.resolve() / "tutorials"
    shutil.copytree(SCRIPTS, place, ignore=shutil.ignore_patterns("__pycache__"))
    return place


def rewritten(page: str, folder: Path) -> str:
    """The page with what its commands print in ``folder``."""

    def executed(block: re.Match[str]) -> str:
        parts = [f"$ {each[1]}\n{run(each[1], folder)}" for each in _found(block[1])]
        return f"```console\n{''.join(parts)}```\n"

    return BLOCK.sub(executed, page)


def without_errors(output: str) -> str:
    """The output without figures that depend on the processor."""
    return re.sub(r" +", " ", ERROR.sub("?", output))


def main() -> int:
    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(name)
            path.write_text(rewritten(path.read_text(), prepared(Path(folder))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
