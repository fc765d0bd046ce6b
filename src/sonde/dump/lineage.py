"""Which script, arguments, data and checkpoints made a run: ``lineage.json`` beside its files.

A process has one lineage. The parts of Sonde that see data or checkpoints note them; the file is
replaced as a whole when something new is noted.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

from sonde.core.files.atomic_file import write_whole
from sonde.core.files.input_file import read_input

LINEAGE_FILE: Final = "lineage.json"
FORMAT: Final = "sonde-lineage"
VERSION: Final = 1
Kind = Literal["data", "checkpoints_read", "checkpoints_written", "summaries"]
KINDS: Final[tuple[Kind, ...]] = ("data", "checkpoints_read", "checkpoints_written", "summaries")
PATH_ATTRIBUTES: Final = ("root", "path", "data_dir", "dataset_dir", "filename")
_MOST: Final = 100
_log = logging.getLogger("sonde.dump")


@dataclass(slots=True)
class RunLineage:
    """What made a run. ``data`` are datasets in words, the others paths; the first hundred of each.
    Used from any thread."""

    script: str = ""
    arguments: list[str] = field(default_factory=list)
    working_directory: str = ""
    started: str = ""
    data: list[str] = field(default_factory=list)
    checkpoints_read: list[str] = field(default_factory=list)
    checkpoints_written: list[str] = field(default_factory=list)
    summaries: list[str] = field(default_factory=list)

    def write(self, directory: Path) -> None:
        document = {"format": FORMAT, "version": VERSION, **asdict(self)}
        write_whole(directory / LINEAGE_FILE, json.dumps(document, indent=1) + "\n")


class LineageRecorder:
    """The lineage of this process, and the directories that have it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lineage: RunLineage | None = None
        self._directories: list[Path] = []

    def keep_in(self, directory: Path) -> None:
        """Write the lineage to this directory, now and when it changes. OSError if the directory
        cannot be written."""
        with self._lock:
            if directory not in self._directories:
                self._directories.append(directory)
            self._known().write(directory)

    def forget(self, directory: Path) -> None:
        with self._lock:
            if directory in self._directories:
                self._directories.remove(directory)

    def note(self, kind: Kind, value: str) -> None:
        """Add something that the process uses or makes; a failure to write it is logged."""
        with self._lock:
            noted: list[str] = getattr(self._known(), kind)
            if value in noted or len(noted) >= _MOST:
                return
            noted.append(value)
            self._write()

    def run_program(self, script: str, arguments: Sequence[str]) -> None:
        """The process is about to run a program that has these words; until now it may have had
        those of a command of Sonde."""
        with self._lock:
            if self._lineage is not None:
                self._lineage.script, self._lineage.arguments = script, list(arguments)
                self._write()

    def _write(self) -> None:
        for directory in self._directories:
            try:
                self._known().write(directory)
            except OSError as error:
                _log.warning("the lineage in %s cannot be written: %s", directory, error)

    def _known(self) -> RunLineage:
        if self._lineage is None:
            script, *arguments = sys.argv or [""]
            started = datetime.now(UTC).isoformat(timespec="seconds")
            self._lineage = RunLineage(script, arguments, os.getcwd(), started)
        return self._lineage


LINEAGE: Final = LineageRecorder()
"""That of this process."""
os.register_at_fork(after_in_child=LINEAGE.__init__)  # type: ignore[misc]


def read_lineage(directory: Path) -> RunLineage | None:
    """The lineage in a directory; None if there is none, or it is damaged."""
    try:
        document = json.loads(read_input(directory / LINEAGE_FILE))
        if document["format"] != FORMAT or document["version"] != VERSION:
            return None
        return RunLineage(
            _text(document["script"]),
            _texts(document["arguments"]),
            _text(document["working_directory"]),
            _text(document["started"]),
            *(_texts(document[kind]) for kind in KINDS),
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _texts(value: Any) -> list[str]:
    return [_text(each) for each in value]


def dataset_path(dataset: Any) -> str | None:
    """Where the files of a dataset are, if it says so as most do."""
    for name in PATH_ATTRIBUTES:
        value = getattr(dataset, name, None)
        if isinstance(value, str | os.PathLike):
            return os.fsdecode(value)
    return None
