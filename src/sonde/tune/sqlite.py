"""SQLite as the storage of a study, safe among several processes.

Python's driver and Optuna leave reading and then writing to two transactions there, so that two
searches could take the same waiting trial. Here a transaction begins with the right to write.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from optuna.storages import RDBStorage
from sqlalchemy import event

from sonde.tune.errors import TuneError

LOCK_SECONDS = 60
"""How long a transaction waits for another process's."""


def open_sqlite(url: str) -> RDBStorage:
    """The storage in a SQLite file, made with its directory if there is none."""
    file = file_of(url)
    file.parent.mkdir(parents=True, exist_ok=True)
    with _one_at_a_time(file):
        arguments = {"timeout": LOCK_SECONDS, "factory": _Connection}
        storage = RDBStorage(url, engine_kwargs={"connect_args": arguments})
    event.listen(
        storage.engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE")
    )
    return storage


def read_sqlite(url: str) -> RDBStorage:
    """The same, only to be read: nobody waits for it. `TuneError` without a file."""
    if not file_of(url).is_file():
        raise TuneError(f"there is no file {file_of(url)}", slug="tune-storage")
    return RDBStorage(url, engine_kwargs={"connect_args": {"timeout": LOCK_SECONDS}})


def file_of(url: str) -> Path:
    return Path(url.partition(":///")[2].partition("?")[0])


class _Connection(sqlite3.Connection):
    """With a write-ahead log: readers do not wait, and a write is as safe at half the price.

    Transactions are SQLAlchemy's business, so the driver begins none by itself.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.isolation_level = None
        self.execute("PRAGMA journal_mode=WAL")
        self.execute("PRAGMA synchronous=FULL")


@contextlib.contextmanager
def _one_at_a_time(database: Path) -> Iterator[None]:
    """Making the tables is not safe in two processes at once: the second waits for the first."""
    import fcntl

    with open(database.with_name(f".{database.name}.lock"), "a") as lock:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
