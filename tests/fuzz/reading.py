"""Gives damaged files of one kind to what reads them, in a process with little memory."""

from __future__ import annotations

import json
import os
import resource
import signal
import traceback
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.fuzz.kinds import Kind
from tests.fuzz.mutating import mutants

from sonde.core.errors import SondeError

MEMORY = 700 << 20
SECONDS = 10.0
MAY_GROW = 48 << 20
MOST_FAILURES = 10
_WHOLE = 8


class Hang(BaseException):
    """A file took too long; nothing that reads may catch this."""


@dataclass(slots=True)
class Outcome:
    """What became of the inputs of one kind; ``failures`` name the saved inputs."""

    kind: str
    read: int = 0
    refused: int = 0
    failures: list[str] = field(default_factory=list)


def fuzz(
    name: str, make: Callable[[Path], Kind], count: int, seed: int, directory: Path, failed: Path
) -> Outcome:
    """Read ``count`` damaged inputs. Limits the memory of this process: call it in a child."""
    warnings.simplefilter("ignore")
    outcome = Outcome(name)
    chosen = make(directory)
    whole = chosen.sources[: 1 if chosen.reads_all else _WHOLE]
    for each in whole:  # can be read; imports are done by then
        chosen.path.write_bytes(each)
        chosen.read(chosen.path)
    _limit_memory()
    signal.signal(signal.SIGALRM, _hang)
    resident: list[int] = []
    files = len(os.listdir("/proc/self/fd"))
    for number, data in enumerate(mutants(chosen.sources, count, seed)):
        reason = _read(chosen, data, outcome)
        if reason is not None:
            saved = failed / f"{name.replace(' ', '_')}-{seed}-{number}"
            saved.write_bytes(data)
            outcome.failures.append(f"{saved}: {reason}")
            if len(outcome.failures) == MOST_FAILURES:
                return outcome
        resident.append(_resident())
    half = resident[len(resident) // 2 :]
    if half and half[-1] - half[0] > MAY_GROW:
        outcome.failures.append(f"memory grew by {(half[-1] - half[0]) >> 20} MB")
    left = len(os.listdir("/proc/self/fd")) - files
    if left:
        outcome.failures.append(f"{left} files were left open")
    return outcome


def _read(chosen: Kind, data: bytes, outcome: Outcome) -> str | None:
    """Why one input failed; None if it was read or refused as it should be."""
    chosen.path.write_bytes(data)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        chosen.read(chosen.path)
    except SondeError as error:
        outcome.refused += 1
        text = str(error)
        if chosen.names_file and chosen.path.name not in text:
            return f"the file is not named: {text}"
        return None
    except BaseException:
        return traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    outcome.read += 1
    return None


def write_outcome(outcome: Outcome, path: Path) -> None:
    path.write_text(json.dumps(asdict(outcome)))


def read_outcome(path: Path) -> Outcome:
    return Outcome(**json.loads(path.read_text()))


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _hang(*_: object) -> None:
    raise Hang
