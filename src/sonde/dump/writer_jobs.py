"""The jobs of the Python writer, and how one is carried out."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from sonde.dump.whole_files import Body, link_file, move_directory, write_file


@dataclass(slots=True)
class Directory:
    """A directory as the jobs of one time mean it; a rename gives it a successor."""

    path: str
    moved_to: Directory | None = None

    def places(self) -> Iterator[Directory]:
        """Itself and all its successors; the last is where its files are."""
        place: Directory | None = self
        while place is not None:
            yield place
            place = place.moved_to


@dataclass(frozen=True, slots=True)
class Target:
    directory: Directory
    name: str

    def path(self) -> str:
        """Where the file is now."""
        *_, place = self.directory.places()
        return f"{place.path}/{self.name}"


@dataclass(slots=True, eq=False)
class Job:
    kind: Literal["file", "link", "rename"]
    path: str
    target: Target | None = None
    head: bytes = b""
    body: Body = b""
    keep: object = None
    is_lent: bool = False
    is_running: bool = False
    source: int = 0
    source_target: Target | None = None
    renamed_to: str = ""
    moves: list[tuple[Directory, Directory]] = field(default_factory=list)
    number: int = 0
    after: list[Job] = field(default_factory=list)
    waits_for: int = 0

    @property
    def bytes(self) -> int:
        return len(self.head) + len(self.body)


def perform(job: Job, worker: int) -> OSError | None:
    """Do what the job says; the failure, if it is one, with the job's path."""
    try:
        if job.kind == "rename":
            move_directory(job.path, job.renamed_to)
            return None
        assert job.target is not None
        path = job.target.path()
        if job.kind == "file":
            write_file(path, worker, job.head, job.body)
        elif job.source_target is not None:
            link_file(job.source_target.path(), path, worker)
    except OSError as error:
        return OSError(error.errno or errno.EIO, error.strerror, _known_path(job))
    except Exception as error:  # A thread that ends would leave its jobs pending for ever.
        return OSError(errno.EIO, f"{type(error).__name__}: {error}", _known_path(job))
    return None


def _known_path(job: Job) -> str:
    return job.path if job.target is None else job.target.path()


def checked_bytes(data: bytes) -> bytes:
    if not isinstance(data, bytes):
        raise TypeError("header and data must be bytes")
    return data


def absolute_path(path: str) -> str:
    if not isinstance(path, str):
        raise TypeError(f"path must be str, not {type(path).__name__}")
    if not path.startswith("/") or "\0" in path:
        raise ValueError(f"path must be absolute, without NUL: {path!r}")
    return path


def file_path(path: str) -> str:
    if absolute_path(path).endswith("/"):
        raise ValueError(f"path must name a file: {path!r}")
    return path
