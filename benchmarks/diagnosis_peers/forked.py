"""Runs programs in children of one process that has imported torch, which saves seconds each time.

    python forked.py MODULE...

imports the modules and answers requests: a line of JSON with ``cwd``, ``words`` (as those of
``python``: a file or ``-m`` and a module, and arguments) and ``timeout_seconds``. The answer is a
line with the exit code; output is in the files ``stdout`` and ``stderr`` of ``cwd``.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path


class Forked:
    """The side that asks."""

    def __init__(self, python: str, modules: Sequence[str]) -> None:
        self.python = python
        self._server = subprocess.Popen(
            [python, __file__, *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    def run(self, words: Sequence[str], cwd: str, timeout_seconds: int) -> int:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        request = {"cwd": cwd, "words": list(words), "timeout_seconds": timeout_seconds}
        print(json.dumps(request), file=self._server.stdin, flush=True)
        return int(self._server.stdout.readline() or -1)

    def close(self) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait()


def _serve() -> None:
    for name in sys.argv[1:]:
        try:
            importlib.import_module(name)
        except ImportError:
            print(f"without {name}", file=sys.stderr)
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if not child:
            _become(request["words"], request["cwd"], request["timeout_seconds"])
        _, status = os.waitpid(child, 0)
        with contextlib.suppress(ProcessLookupError):  # What it started ends with it.
            os.killpg(child, signal.SIGKILL)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become(words: list[str], cwd: str, timeout_seconds: int) -> None:
    """Run the program in this process, and end it."""
    code = 0
    try:
        os.chdir(cwd)
        os.setpgid(0, 0)
        for number, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(name, os.O_CREAT | os.O_WRONLY), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(timeout_seconds)
        if words[0] == "-m":
            sys.argv = words[1:]
            sys.path[0] = cwd
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = words
            sys.path[0] = str(Path(words[0]).parent)
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1 if end.code else 0
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()
