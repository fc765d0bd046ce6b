"""A cache of the graphs and listings of a large dump, so that it opens fast the next time."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Final, TypeVar

import msgspec
import xxhash

from sonde.core.files.atomic_file import write_whole

T = TypeVar("T")

FORMAT: Final = 1
_BESIDE: Final = ".sonde_index"
_SETTLED_SECONDS: Final = 3.0
_MOST_BYTES: Final = 1 << 31

Key = tuple[int, ...]


def state_of(*paths: Path) -> Key:
    """Numbers that change when one of the files or directories does."""
    found: list[int] = [FORMAT]
    for path in paths:
        try:
            status = path.stat()
            found += [status.st_mtime_ns, status.st_size, status.st_ino]
        except OSError:
            found += [-1, -1, -1]
    return tuple(found)


class DumpCache:
    """Files beside the dump, or in the user's cache directory if that is not writable.

    A file that is stale or damaged counts as missing.
    """

    def __init__(self, dump: Path | None) -> None:
        """For None nothing is kept."""
        self._directories: tuple[Path, ...] = () if dump is None else _places(dump)

    def read(self, name: str, key: Key, kind: type[T]) -> T | None:
        found = (self._read(directory / name, key, kind) for directory in self._directories)
        return next((value for value in found if value is not None), None)

    def _read(self, path: Path, key: Key, kind: type[T]) -> T | None:
        try:
            with path.open("rb") as file:
                if os.fstat(file.fileno()).st_size > _MOST_BYTES:
                    return None
                data = file.read()
            stored_key, body = msgspec.msgpack.decode(data, type=tuple[Key, msgspec.Raw])
            return msgspec.msgpack.decode(body, type=kind) if stored_key == key else None
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None

    def write(self, name: str, key: Key, value: object, *paths: Path) -> None:
        """Write ``value``, unless one of ``paths`` changed just now, and may be still changing.

        The directory is made here: a dump that needs no cache has none.
        """
        directory = _writable(self._directories) if _are_settled(paths) else None
        if directory is None:
            return
        body = msgspec.Raw(msgspec.msgpack.encode(value))
        with contextlib.suppress(OSError):
            write_whole(directory / name, msgspec.msgpack.encode((key, body)))


def _are_settled(paths: tuple[Path, ...]) -> bool:
    try:
        newest = max((path.stat().st_mtime for path in paths if path.exists()), default=0.0)
    except OSError:
        return False
    return time.time() - newest > _SETTLED_SECONDS


def _places(dump: Path) -> tuple[Path, ...]:
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    name = xxhash.xxh3_64_hexdigest(str(dump.absolute()).encode())
    return dump / _BESIDE, Path(home) / "sonde" / "index" / name


def _writable(directories: tuple[Path, ...]) -> Path | None:
    for directory in directories:
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(directory, os.W_OK | os.X_OK):
            return directory
    return None
