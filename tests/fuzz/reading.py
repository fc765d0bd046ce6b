"""Read damaged files of one kind in a process with little memory; run by ``test_readers``.

Usage: ``python -m tests.fuzz.reading KIND COUNT SEED DIRECTORY``. Ends with a line of JSON: how
many files were read, refused, and how much the memory in use grew over the second half.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import traceback
from pathlib import Path

from tests.fuzz.kinds import KINDS
from tests.fuzz.mutating import mutants

from sonde.core.errors import SondeError

MEMORY = 700 << 20
SECONDS = 10.0


class Hang(BaseException):
    """A file took too long; nothing that reads may catch this."""


def main(kind: str, count: int, seed: int, directory: Path) -> int:
    chosen = KINDS[kind](directory)
    for each in chosen.sources:  # what is not damaged can be read; imports are done by then
        chosen.path.write_bytes(each)
        chosen.read(chosen.path)
    _limit_memory()
    signal.signal(signal.SIGALRM, _hang)
    read = refused = 0
    resident: list[int] = []
    files = len(os.listdir("/proc/self/fd"))
    for number, data in enumerate(mutants(chosen.sources, count, seed)):
        chosen.path.write_bytes(data)
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        try:
            chosen.read(chosen.path)
            read += 1
        except SondeError as error:
            refused += 1
            text = str(error)
            if chosen.names_file and chosen.path.name not in text:
                return _fail(number, data, directory, f"the file is not named: {text}")
        except BaseException:
            return _fail(number, data, directory, traceback.format_exc())
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        resident.append(_resident())
    half = resident[len(resident) // 2 :]
    left = len(os.listdir("/proc/self/fd")) - files
    print(json.dumps({"read": read, "refused": refused, "grown": half[-1] - half[0], "open": left}))
    return 0


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _hang(*_: object) -> None:
    raise Hang


def _fail(number: int, data: bytes, directory: Path, reason: str) -> int:
    (directory / f"failed_{number}").write_bytes(data)
    print(f"file {number} of {len(data)} bytes: {reason}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])))
