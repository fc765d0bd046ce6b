"""Runs ``sonde profile`` in child processes: one, or one for each rank."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import IO

REPLAY_PORT = "SONDE_REPLAY_PORT"
"""The environment variable with a port at which the ranks can connect after the program."""

_POLL_SECONDS = 0.05


def launch(arguments: Sequence[str], *, ranks: int, log: IO[bytes] | None = None) -> int:
    """Run ``sonde profile`` with these arguments, in ``ranks`` processes of one process group.

    Returns the first exit code that is not 0, after killing the other ranks, else 0. The output
    goes to ``log``, or to this process's own output.
    """
    command = [sys.executable, "-m", "sonde", "profile", *arguments]
    ports = (_free_port(), _free_port()) if ranks > 1 else (0, 0)
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for rank in range(ranks):
            processes.append(
                subprocess.Popen(
                    command,
                    env=_environment(rank, ranks, ports),
                    stdout=log,
                    stderr=subprocess.STDOUT if log is not None else None,
                )
            )
        return _wait(processes)
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=10)


def _wait(processes: Sequence[subprocess.Popen[bytes]]) -> int:
    while True:
        codes = [process.poll() for process in processes]
        failed = next((code for code in codes if code), None)
        if failed is not None:
            return failed
        if None not in codes:
            return 0
        time.sleep(_POLL_SECONDS)


def _environment(rank: int, ranks: int, ports: tuple[int, int]) -> dict[str, str]:
    environment = dict(os.environ)
    if ranks > 1:
        environment.update(
            RANK=str(rank),
            LOCAL_RANK=str(rank),
            WORLD_SIZE=str(ranks),
            LOCAL_WORLD_SIZE=str(ranks),
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(ports[0]),
        )
        environment[REPLAY_PORT] = str(ports[1])
        environment.setdefault("OMP_NUM_THREADS", "1")  # as torchrun does
    return environment


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
