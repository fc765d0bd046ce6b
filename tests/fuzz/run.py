"""Damaged and hostile inputs of every kind Sonde reads: files, through commands, and messages.

    python -m tests.fuzz.run [--count 10000] [--seed N] [--kinds npz watchpoints ...] [--to DIR]

Each input must be read, or refused with one error that names it. Any other exception, more than
10 s, 700 MB, a file left open, or memory that grows is a failure; the input is saved in DIR and its
name printed. The same seed gives the same inputs. Every kind runs in a forked process, two at a
time. Exit code 1 if anything failed.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import torch
from tests.fuzz import command_kinds, kinds, wire_kinds
from tests.fuzz.kinds import Kind
from tests.fuzz.reading import SECONDS, Outcome, fuzz, read_outcome, write_outcome

import sonde.adapters.torch.checkpoints.files  # noqa: F401 - once, before all processes fork

KINDS: dict[str, Callable[[Path], Kind]] = {
    **kinds.KINDS,
    **command_kinds.KINDS,
    **wire_kinds.KINDS,
}
# Kinds whose inputs take many times as long: a whole dump is read for each.
SLOW = {
    "dump": 0.4,
    "foreign_dump": 0.1,
    "show command": 0.3,
    "show foreign command": 0.05,
    "watchpoints": 0.5,
}
MOST_SECONDS = 3600.0


def shares(count: int, chosen: list[str]) -> dict[str, int]:
    """How many of ``count`` inputs each kind gets, at least one."""
    weights = {name: SLOW.get(name, 1.0) for name in chosen}
    whole = sum(weights.values())
    found = {name: max(1, round(count * weight / whole)) for name, weight in weights.items()}
    found[max(found, key=found.__getitem__)] += max(0, count - sum(found.values()))
    return found


class Child:
    """A forked process that reads the inputs of one kind."""

    def __init__(self, name: str, count: int, seed: int, place: Path, failed: Path) -> None:
        self.name = name
        self._directory = place / name.replace(" ", "_")
        self._directory.mkdir()
        self._outcome = self._directory / "outcome"
        self._end = time.monotonic() + min(MOST_SECONDS, 60 + count * SECONDS)
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                files = self._directory / "files"
                files.mkdir()
                outcome = fuzz(name, KINDS[name], count, seed, files, failed)
                write_outcome(outcome, self._outcome)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)

    def outcome(self) -> Outcome | None:
        """The outcome of a process that has ended; None while it runs."""
        done, _ = os.waitpid(self.pid, os.WNOHANG)
        if not done and time.monotonic() > self._end:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        elif not done:
            return None
        if self._outcome.exists():
            return read_outcome(self._outcome)
        return Outcome(self.name, failures=[f"the process died; see {self._directory}"])


def run(chosen: list[str], count: int, seed: int, failed: Path, jobs: int) -> list[Outcome]:
    """Fuzz the kinds, a line for each; ``failed`` receives the inputs that failed."""
    torch.set_num_threads(1)
    failed.mkdir(parents=True, exist_ok=True)
    waiting = list(shares(count, chosen).items())
    running: list[Child] = []
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="sonde-fuzz-") as place:
        while waiting or running:
            while waiting and len(running) < jobs:
                name, share = waiting.pop(0)
                running.append(Child(name, share, seed, Path(place), failed))
            ended = {child: child.outcome() for child in running}
            for child, outcome in ended.items():
                if outcome is not None:
                    running.remove(child)
                    outcomes.append(outcome)
                    _show(outcome)
            if running:
                time.sleep(0.05)
    return outcomes


def _show(outcome: Outcome) -> None:
    print(
        f"{outcome.kind:22} {outcome.read:6} read {outcome.refused:6} refused "
        f"{len(outcome.failures):4} failed",
        flush=True,
    )
    for failure in outcome.failures:
        print(f"  {failure}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--to", type=Path, default=Path("build/fuzz_failures"))
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    print(f"{options.count} inputs, --seed {options.seed}")
    outcomes = run(options.kinds, options.count, options.seed, options.to, options.jobs)
    failures = sum(len(each.failures) for each in outcomes)
    total = sum(each.read + each.refused for each in outcomes)
    print(f"{total} inputs read or refused, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
