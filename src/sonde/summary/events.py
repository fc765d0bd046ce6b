"""TensorBoard event files, with a bound on their size.

Files are named ``events.out.tfevents.<time>.<host>.<pid>.<number>.sonde``, so they sort by age. A
new one is begun before the current one would grow beyond ``max_file_size``. With
``max_total_size`` the oldest files of the directory are deleted before everything would grow beyond
it, and what must not be lost with them (graph, lineage) is repeated at the head of each new file.
"""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Any, BinaryIO

from sonde.summary.tensorboard_format import Event, records

SUFFIX = ".sonde"
RECORD_FRAME = 16
"""Bytes around each record: its length and two checksums."""
FILES_IN_TOTAL = 4
"""Into how many files a bounded total is cut, so that little is lost with the oldest."""


class EventFiles:
    """Writes events to a directory, within bounds. Not for use from several threads."""

    def __init__(
        self,
        directory: Path,
        *,
        max_file_size: int | None = None,
        max_total_size: int | None = None,
    ) -> None:
        self._directory = directory
        self._max_total = max_total_size
        if max_total_size is not None:
            share = max_total_size // FILES_IN_TOTAL
            max_file_size = share if max_file_size is None else min(max_file_size, share)
        self._max_file = max_file_size
        self._kept: dict[str, bytes] = {}
        self._number = 0
        self._stream: BinaryIO | None = None
        self._written = 0

    def write(self, *, step: int, keep_as: str | None = None, **what: Any) -> bool:
        """Write one event (``summary=`` or ``graph_def=``); False when it is too large for a file.

        The latest event kept under a name is repeated in later files when old ones may be deleted.
        """
        data = Event(wall_time=time.time(), step=step, **what).SerializeToString()
        if self._max_file is not None and len(data) + self._head_size() > self._max_file:
            return False
        self._put(data)
        if keep_as is not None and self._max_total is not None:
            self._kept[keep_as] = data
        return True

    def flush(self) -> None:
        """Hand everything written so far to the operating system."""
        if self._stream is not None:
            self._stream.flush()

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _put(self, data: bytes) -> None:
        size = len(data) + RECORD_FRAME
        if self._stream is None or (
            self._max_file is not None and self._written + size > self._max_file
        ):
            self._begin_file()
        assert self._stream is not None
        records(self._stream).write(data)
        self._written += size

    def _begin_file(self) -> None:
        self.close()
        if self._max_total is not None and self._max_file is not None:
            self._delete_oldest(self._max_total - self._max_file)
        self._stream = self._new_file()
        self._written = 0
        for data in (_version_event(), *self._kept.values()):
            records(self._stream).write(data)
            self._written += len(data) + RECORD_FRAME

    def _new_file(self) -> BinaryIO:
        stem = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}"
        while True:
            self._number += 1
            try:
                return (self._directory / f"{stem}.{self._number:06d}{SUFFIX}").open("xb")
            except FileExistsError:  # by an earlier writer of this process, in this second
                continue

    def _delete_oldest(self, allowed: int) -> None:
        files = sorted(self._directory.glob(f"*tfevents*{SUFFIX}"))
        sizes = {file: file.stat().st_size for file in files}
        for file in files:
            if sum(sizes.values()) <= allowed:
                return
            del sizes[file]
            file.unlink()

    def _head_size(self) -> int:
        """Size in bytes of a new file's header and of the framing of its first event."""
        heads = (_version_event(), *self._kept.values())
        return sum(len(data) + RECORD_FRAME for data in heads) + RECORD_FRAME


def _version_event() -> bytes:
    event = Event(wall_time=time.time(), file_version="brain.Event:2")
    data: bytes = event.SerializeToString()
    return data
