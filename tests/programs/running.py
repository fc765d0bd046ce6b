"""Runs the programs of this folder bare and in every mode of Sonde, each once."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import structs
from tests.debugger.hub import Hub, RankConnection
from tests.e2e.running import environment

from sonde.debugger.initial_watchpoints import starting_set
from sonde.dump.reader import Dump

HERE = Path(__file__).parent
TWO_RANKS = ("fsdp2", "fsdp2_uninitialised", "tensor_parallel")
OPTIONS = {
    "stats": ["--stats"],
    "overflow": ["--overflow"],
    "tensors": ["--dump-ops", "mm", "--dump-steps", "1|3"],
    "debugger": [],
}
MODES = tuple(OPTIONS)
# What the programs and Sonde import while they run, imported once.
IMPORTED = (
    "torch._dynamo",
    "torch.utils.data",
    "torch.distributed.checkpoint.state_dict",
    "torch.distributed.fsdp",
    "torch.distributed.tensor.parallel",
    "sonde.adapters.torch.attach",
    "sonde.adapters.torch.compiled.capture",
)
# They report, and do not pause.
WATCHPOINTS = tuple(
    structs.replace(each, break_after=0) for each in starting_set((), recommended=True)
)


@dataclass(frozen=True)
class Ended:
    """What is left of a program that has ended. Lists have one entry per rank."""

    codes: list[int]
    stdout: list[str]
    stderr: list[str]
    path: Path
    debugged: list[RankConnection]

    @functools.cached_property
    def dump(self) -> Dump:
        return Dump(self.path)

    def verdict(self, rank: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.path / f"rank_{rank}/overflow.json").read_text())
        return found


class Programs:
    """Runs every program at most once per mode, in a process forked from a warm one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ended: dict[tuple[str, str, int], Ended] = {}
        self._parent = subprocess.Popen(
            [sys.executable, "-m", "tests.programs.forking", *IMPORTED],
            cwd=HERE.parents[1],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, program: str, mode: str, *, fault_step: int = -1) -> Ended:
        """What is left of ``program`` in ``mode``, with a loss of 0/0 in step ``fault_step``."""
        key = (program, mode, fault_step)
        if key not in self._ended:
            self._ended[key] = self._run(program, mode, {"FAULT_STEP": str(fault_step)})
        return self._ended[key]

    def _run(self, program: str, mode: str, more: dict[str, str]) -> Ended:
        if mode != "debugger":
            return self._start(program, mode, more)
        with Hub(paused=False, watchpoints=WATCHPOINTS) as hub:
            more = {**more, "SONDE_DEBUGGER_PORT": str(hub.port)}
            ended = self._start(program, mode, more)
            for number in range(len(ended.codes)):
                rank = hub.rank(number)
                rank.ended()
                ended.debugged.append(rank)
            return ended

    def _start(self, program: str, mode: str, more: dict[str, str]) -> Ended:
        path = self._path / f"{program}-{mode}-{len(self._ended)}"
        words = [str(HERE / f"{program}.py")]
        if mode != "bare":
            target = [] if mode == "debugger" else ["--dump-to", "dump"]
            words = ["-m", "sonde", "run", *OPTIONS[mode], *target, *words]
        for attempt in range(4):
            directory = path / str(attempt)
            directory.mkdir(parents=True)
            ranks = [more]
            if program in TWO_RANKS:
                shared = {**more, "WORLD_SIZE": "2", "STORE": str(directory / "store")}
                ranks = [{**shared, "RANK": str(number)} for number in (0, 1)]
            request = {"words": words, "environments": ranks, "directory": str(directory)}
            codes = self._ask(request)
            stdout, stderr = (
                [(directory / f"{number}.{name}").read_text() for number in range(len(ranks))]
                for name in ("stdout", "stderr")
            )
            # Bare, too, gloo's threads abort now and then when a process ends.
            if "terminate called without an active exception" not in "".join(stderr):
                break
        return Ended(codes, stdout, stderr, directory / "dump", [])

    def _ask(self, request: dict[str, Any]) -> list[int]:
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        print(json.dumps(request), file=self._parent.stdin, flush=True)
        codes: list[int] = json.loads(self._parent.stdout.readline())
        return codes

    def close(self) -> None:
        self._parent.communicate()
