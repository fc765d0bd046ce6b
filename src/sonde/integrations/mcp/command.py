"""Runs a command of Sonde for a tool: in a process of its own, within a time limit.

The process gets no standard input, and what it prints is read here, so that neither Sonde nor the
user's program can write into the stream of the protocol.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anyio
from anyio.abc import ByteReceiveStream, Process

from sonde.core.errors import UsageError

MOST_SECONDS: Final = 3_600
_GRACE_SECONDS: Final = 20
"""After the time limit the process is interrupted, as by Ctrl-C, so that it can write what it has
found; after these seconds it is killed."""
_MOST_OUTPUT: Final = 256 << 20
_KEPT_LOG: Final = 20_000
_MOST_PATH: Final = 4_000
_MOST_NAME: Final = 255


@dataclass(frozen=True, slots=True)
class Done:
    """A command that has ended: its document, its exit code, the end of what it and the user's
    program printed, and whether the time limit interrupted it."""

    document: Any
    exit_code: int
    log: str
    is_late: bool

    def last_lines(self, number: int) -> list[str]:
        return self.log.splitlines()[-number:]


@dataclass(frozen=True, slots=True)
class Workspace:
    """The directory below which the tools may read, write and run programs."""

    root: Path

    def path(self, text: str) -> str:
        """A path given by the client, relative to the root if it can be; UsageError if it leads
        out of the root."""
        if not _is_path(text):
            raise UsageError(
                f"{text[:80]!r} is not a path; give one below {self.root}", slug="mcp-path"
            )
        place = Path(os.path.realpath(self.root / text))
        if not place.is_relative_to(self.root):
            raise UsageError(
                f"{text!r} is not below {self.root}; start 'sonde mcp --root DIR' with a "
                "directory that contains it",
                slug="mcp-path",
            )
        found = os.fspath(place.relative_to(self.root))
        return f"./{found}" if found.startswith("-") else found

    def program(self, script: str, module: str, arguments: Sequence[str] | None) -> list[str]:
        """The words of a program: a script below the root, or a module."""
        if bool(script) == bool(module):
            raise UsageError("give either a script or a module", slug="usage")
        if module:
            if module.startswith("-"):
                raise UsageError(f"{module!r} is not the name of a module", slug="usage")
            return ["-m", module, *(arguments or ())]
        path = self.path(script)
        if not (self.root / path).is_file():
            raise UsageError(
                f"there is no file {script!r} below {self.root}; give the path of a script",
                slug="program-not-found",
            )
        return ["--", path, *(arguments or ())]

    async def run(self, command: str, words: Sequence[str], seconds: float) -> Done:
        """Run ``sonde COMMAND --json WORDS``; UsageError with the command's own error."""
        if not 0 < seconds <= MOST_SECONDS:
            raise UsageError(
                f"seconds must be above 0 and at most {MOST_SECONDS:,} (got {seconds:g})",
                slug="usage",
            )
        if not all(map(_is_word, words)):
            raise UsageError("arguments must be Unicode text without NUL", slug="usage")
        line = [sys.executable, "-m", "sonde", *command.split(), "--json", *words]
        process = await anyio.open_process(
            line,
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            out, log, is_late = await _finished(process, seconds)
        finally:
            if process.returncode is None:
                _kill(process)
            with anyio.CancelScope(shield=True):
                await process.wait()
                await process.aclose()
        return _done(out, log, process.returncode or 0, is_late=is_late, seconds=seconds)


def _is_word(text: str) -> bool:
    """Whether the text can be an argument of a process."""
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def _is_path(text: str) -> bool:
    """Whether the text can be a path, of as many characters as a system allows."""
    return (
        bool(text)
        and _is_word(text)
        and len(os.fsencode(text)) <= _MOST_PATH
        and all(len(os.fsencode(part)) <= _MOST_NAME for part in Path(text).parts)
    )


def _done(out: bytes, log: str, code: int, *, is_late: bool, seconds: float) -> Done:
    try:
        document = json.loads(out)
    except ValueError:
        document = None
    error = document.get("error") if isinstance(document, dict) else None
    if isinstance(error, dict) and error["slug"] is not None:
        raise UsageError(str(error["message"]), slug=error["slug"])
    if document is None or error is not None:  # without a slug: it was interrupted
        last = " | ".join(log.splitlines()[-3:])
        if is_late:
            raise UsageError(
                f"not finished after {seconds:g} s, and stopped; give more seconds, or less to do"
                f" (last lines: {last})",
                slug="mcp-time-limit",
            )
        raise UsageError(
            f"the command ended with exit code {code} and no result (last lines: {last})",
            slug="mcp-no-result",
        )
    return Done(document, code, log, is_late)


async def _finished(process: Process, seconds: float) -> tuple[bytes, str, bool]:
    """What the process prints until it ends: standard output, the end of standard error, and
    whether the time limit interrupted it."""
    out, log = _Tail(_MOST_OUTPUT), _Tail(_KEPT_LOG)
    is_late = False
    assert process.stdout is not None
    assert process.stderr is not None
    async with anyio.create_task_group() as group:
        group.start_soon(out.read, process.stdout)
        group.start_soon(log.read, process.stderr)
        with anyio.move_on_after(seconds):
            await process.wait()
        if process.returncode is None:
            is_late = True
            _signal(process, signal.SIGINT)
            with anyio.move_on_after(_GRACE_SECONDS):
                await process.wait()
        _kill(process)  # also what the program has left behind, which may hold the pipes open
    return bytes(out.data), log.data[-_KEPT_LOG:].decode("utf-8", "replace"), is_late


class _Tail:
    """Reads a stream to its end, and keeps the last bytes."""

    def __init__(self, most: int) -> None:
        self.data = bytearray()
        self._most = most

    async def read(self, stream: ByteReceiveStream) -> None:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async for chunk in stream:
                self.data += chunk
                if len(self.data) > 2 * self._most:
                    del self.data[: -self._most]


def _signal(process: Process, number: signal.Signals) -> None:
    """Signal the process and all that it has started, which are a group of their own."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _kill(process: Process) -> None:
    _signal(process, signal.SIGKILL)
