"""Opens the storage of a study: a SQLite file by default, or any storage of Optuna."""

from __future__ import annotations

import contextlib
import re
import sqlite3
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.study import Study
from sqlalchemy import event

from sonde.core.files.atomic_file import without_links
from sonde.tune.config.search_config import Goal
from sonde.tune.errors import TuneError
from sonde.tune.store.listing import DATABASE

if TYPE_CHECKING:
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler

_OPENINGS = 5
LOCK_SECONDS = 60
"""How long a SQLite transaction waits for one of another process."""
_PASSWORD = re.compile(r"(?<=://)([^:/@]+):[^@/]*@")


def default_url(directory: Path) -> str:
    """The SQLite file of a search's directory."""
    return f"sqlite:///{directory / DATABASE}"


def without_password(url: str) -> str:
    """The URL of a storage with the password masked."""
    return _PASSWORD.sub(r"\1:***@", url)


def open_study(
    url: str | None, name: str, goal: Goal, sampler: BaseSampler, pruner: BasePruner
) -> Study:
    """The study of that name, created if missing; a `TuneError` if it cannot be opened.

    Without a URL the study is in memory.
    """

    def create(storage: BaseStorage | None) -> Study:
        return optuna.create_study(
            study_name=name,
            storage=storage,
            direction=goal,
            sampler=sampler,
            pruner=pruner,
            load_if_exists=True,
        )

    if url is None:
        return create(None)
    study = _opened(url, create)
    before = study.direction.name.lower()
    if before != goal:
        raise TuneError(
            f"the study {name!r} in {without_password(url)} was made to {before} its target, not "
            f"to {goal} it; give another 'study' or 'summary_base_dir'",
            slug="tune-study",
        )
    return study


def load_study(url: str, name: str | None) -> Study:
    """An existing study, for reading; without a name, the only one."""

    def load(storage: BaseStorage) -> Study:
        names = optuna.get_all_study_names(storage)
        if (name or names[0] if names else None) not in names:
            raise TuneError(
                f"{without_password(url)} has no study {name or ''}".rstrip(), slug="tune-study"
            )
        if name is None and len(names) > 1:
            raise TuneError(
                f"{without_password(url)} has several studies; name one: {', '.join(names)}",
                slug="tune-study",
            )
        return optuna.load_study(study_name=name or names[0], storage=storage)

    return _opened(url, load, is_read=True)


def _opened(url: str, use: Callable[[BaseStorage], Study], *, is_read: bool = False) -> Study:
    """Open the storage and use it; retry, as other processes may be creating its tables."""
    failure: BaseException | None = None
    for attempt in range(_OPENINGS):
        try:
            return use(_storage(url, is_read=is_read))
        except TuneError:
            raise
        except ModuleNotFoundError as error:
            raise TuneError(
                f"{without_password(url)} needs the package {error.name}: pip install {error.name}",
                slug="extra-missing",
            ) from None
        except (KeyError, ValueError) as error:
            raise TuneError(
                f"{without_password(url)}: {error.args[0] if error.args else error}",
                slug="tune-storage",
            ) from None
        except Exception as error:  # SQLAlchemy's, the driver's, Optuna's: each has its own
            failure = error
            if attempt < _OPENINGS - 1:
                time.sleep(0.1 * 2**attempt)
    reason = without_password(str(failure).strip().splitlines()[0])
    raise TuneError(
        f"{without_password(url)} cannot be opened: {reason}", slug="tune-storage"
    ) from failure


def _storage(url: str, *, is_read: bool) -> BaseStorage:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        scheme, _, rest = url.partition("://")
        if scheme == "journal":
            from optuna.storages.journal import JournalFileBackend

            return JournalStorage(JournalFileBackend(rest))
        if scheme == "grpc":
            from optuna.storages import GrpcStorageProxy

            host, _, port = rest.partition(":")
            return GrpcStorageProxy(host=host, port=int(port or 13000))
        if scheme.startswith("sqlite"):
            return read_sqlite(url) if is_read else open_sqlite(url)
        if not rest:
            raise ValueError(
                "is not a storage such as sqlite:///file.db, postgresql://user@host/name, "
                "journal:///file.log or grpc://host:port"
            )
        return RDBStorage(url, engine_kwargs={"pool_pre_ping": True})


def open_sqlite(url: str) -> RDBStorage:
    """The storage in a SQLite file, made with its directory if it does not exist.

    Python's driver and Optuna read and write in separate transactions, so two searches could take
    the same waiting trial. Here each transaction begins with the write lock.
    """
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
    """The storage for reading, without a lock. `TuneError` if the file does not exist."""
    if not file_of(url).is_file():
        raise TuneError(f"there is no file {file_of(url)}", slug="tune-storage")
    return RDBStorage(url, engine_kwargs={"connect_args": {"timeout": LOCK_SECONDS}})


def file_of(url: str) -> Path:
    return Path(url.partition(":///")[2].partition("?")[0])


class _Connection(sqlite3.Connection):
    """Uses a write-ahead log: readers do not wait, and a durable write costs half as much.

    SQLAlchemy begins the transactions, so the driver must not.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.isolation_level = None
        self.execute("PRAGMA journal_mode=WAL")
        self.execute("PRAGMA synchronous=FULL")


@contextlib.contextmanager
def _one_at_a_time(database: Path) -> Iterator[None]:
    """A lock on creating the tables, which is not safe in two processes at once."""
    import fcntl

    path = database.with_name(f".{database.name}.lock")
    with open(path, "a", opener=without_links) as lock:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
