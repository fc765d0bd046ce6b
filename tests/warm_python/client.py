"""Replaces ``python``: asks the server to fork, forwards signals, and ends as the child does.

Signals are passed on, the exit code comes back. What a fork cannot give is run by a real Python:
options other than ``-u``, ``-m`` and ``-c``, variables that are read when Python or torch starts,
and files inherited besides the standard ones.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
READ_AT_START = ("PYTHON", "OMP_", "MKL_", "OPENBLAS_", "TORCH", "KINETO", "LD_", "GLIBC", "MALLOC")
TAKEN_OVER = (
    "PYTHONPATH",
    "PYTHONUNBUFFERED",
    "PYTHONDONTWRITEBYTECODE",
    "TORCHINDUCTOR_CACHE_DIR",
)


def read_at_start(environment: dict[str, str]) -> dict[str, str]:
    """The variables that a process must be started with."""
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(READ_AT_START)
        and name not in TAKEN_OVER
        and not name.startswith("TORCHELASTIC_")
    }


def is_forkable(words: list[str], given: dict[str, str]) -> bool:
    if words[:1] == ["-u"]:
        words = words[1:]
    if not words or (words[0].startswith("-") and words[0] not in ("-m", "-c")):
        return False
    inherited = [name for name in os.listdir("/proc/self/fd") if int(name) > 2]
    if any(os.path.exists(f"/proc/self/fd/{name}") for name in inherited):
        return False
    return read_at_start(dict(os.environ)) == given


def run(path: str, executable: str, words: list[str]) -> int:
    """The status of the child, as ``waitpid`` gives it."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    is_leader = os.getsid(0) == os.getpid()
    umask = os.umask(0)
    os.umask(umask)
    request = {
        "arguments": words,
        "directory": os.getcwd(),
        "environment": dict(os.environ),
        "executable": executable,
        "is_leader": is_leader,
        "umask": umask,
    }
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
    socket.send_fds(connection, [json.dumps(request).encode() + b"\n"], [0, 1, 2])
    answers = connection.makefile("rb")
    pid = int(answers.readline())
    for number in (0, 1, 2):  # Whoever reads the child's output waits for the child alone.
        os.close(number)

    def forward(number: int, _: object) -> None:
        try:
            if is_leader:
                os.killpg(pid, number)
            else:
                os.kill(pid, number)
        except ProcessLookupError:
            pass

    for number in FORWARDED:
        signal.signal(number, forward)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    return int(answers.readline())


def end_like(status: int) -> None:
    if os.WIFSIGNALED(status):
        if os.WTERMSIG(status) in FORWARDED:
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))


def main(path: str, executable: str, given: dict[str, str]) -> None:
    words = sys.argv[1:]
    if not is_forkable(words, given):
        os.execv(executable, [executable, *words])
    end_like(run(path, os.path.abspath(sys.argv[0]), words))
