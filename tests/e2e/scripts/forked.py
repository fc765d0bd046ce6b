"""Runs ``sonde`` many times, each in a process of its own that has imported torch already.

Each line of standard input is a JSON list: a directory, and the command line. Standard output and
error of the command go to files in that directory; its exit code is printed.
"""

import json
import os
import sys
from pathlib import Path

import torch

import sonde.adapters.torch.attach
import sonde.dump.reader  # noqa: F401
from sonde.cli.main import main


def run(directory: Path, words: list[str]) -> int:
    os.chdir(directory)
    for number, name in ((1, "stdout"), (2, "stderr")):
        file = os.open(directory / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
    try:
        code = main(words)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code or 0


if __name__ == "__main__":
    torch.set_num_threads(1)
    for line in sys.stdin:
        directory, *words = json.loads(line)
        child = os.fork()
        if child == 0:
            os._exit(run(Path(directory), words))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
