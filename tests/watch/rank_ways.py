"""Runs one scenario as two ranks, in two processes, in each way in which NaN and Inf are judged."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.debugger.hub import Hub, RankConnection
from tests.debugger.running import environment, finish
from tests.warm_python.starting import warm_python
from tests.watch.ways import (
    CONDITIONS,
    SCENARIOS,
    Overflow,
    next_pause,
    overflow_entries,
    specs,
)

from sonde.server.dumps.check import check_dump
from sonde.wire.questions import AskCheck, Checked
from sonde.wire.shapes import ConditionSpec, Hit
from sonde.wire.watchpoints import WatchpointDraft

RANKS = (0, 1)


def launch(name: str, *options: str, port: int | None = None) -> list[subprocess.Popen[str]]:
    """Both ranks, started one by one as a launcher does."""
    script = SCENARIOS / "ranks" / f"{name}.py"
    with socket.create_server(("127.0.0.1", 0)) as free:
        meeting = str(free.getsockname()[1])
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": meeting}
    return [
        subprocess.Popen(
            [warm_python(), "-m", "sonde", "run", *options, str(script)],
            env=environment(port, RANK=str(rank), SONDE_RUN_ID="both", **shared),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in RANKS
    ]


def outputs(processes: Sequence[subprocess.Popen[str]]) -> list[str]:
    """What each rank wrote to standard error, when both have ended well."""
    said = [finish(process)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    return said


def live(name: str) -> tuple[list[list[Hit]], list[Checked]]:
    """The hits of each rank, debugged, with "check now" on both at the end of every step."""
    checks: list[Checked] = []
    with Hub(paused=True, watchpoints=specs()) as hub:
        processes = launch(name, port=hub.port)
        ranks = [hub.rank(number) for number in RANKS]
        for rank in ranks:
            rank.paused()
        while not any(rank.is_over for rank in ranks):
            for rank in ranks:
                rank.control("step")
            checks += [check for rank in ranks if (check := _check(rank)) is not None]
        outputs(processes)
        for rank in ranks:
            rank.ended()
    return [rank.hits for rank in ranks], checks


def _check(rank: RankConnection) -> Checked | None:
    next_pause(rank)
    if rank.is_over:
        return None
    found: Checked = rank.answer("", AskCheck(), Checked)
    return found


def dumped(name: str, path: Path) -> list[list[Hit]]:
    outputs(launch(name, "--dump-to", str(path)))
    drafts = [WatchpointDraft(each, (ConditionSpec(each),)) for each in CONDITIONS]
    hits = check_dump(path, drafts).in_order()
    return [[hit for hit in hits if hit.rank == rank] for rank in RANKS]


def overflowing(name: str, path: Path) -> list[Overflow]:
    said = outputs(launch(name, "--overflow", "--dump-to", str(path)))
    return [Overflow(overflow_entries(path / f"rank_{rank}"), said[rank]) for rank in RANKS]
