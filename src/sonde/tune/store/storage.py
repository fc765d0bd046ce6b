"""Where a study is kept: a SQLite file by default, or anything Optuna can store in."""

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

from sonde.tune.config.search_config import Goal
from sonde.tune.errors import TuneError
from sonde.tune.store.listing import DATABASE

if TYPE_CHECKING:
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler

_OPENINGS = 5
LOCK_SECONDS = 60
"""How long a transaction of SQLite waits for another process's."""
_PASSWORD = re.compile(r"(?<=://)([^:/@]+):[^@/]*@")


def default_url(directory: Path) -> str:
    """The SQLite file of a search's directory."""
    return f"sqlite:///{directory / DATABASE}"


def without_password(url: str) -> str:
    """A storage's address as it may be shown."""
    return _PASSWORD.sub(r"\1:***@", url)


def open_study(url: str, name: str, goal: Goal, sampler: BaseSampler, pruner: BasePruner) -> Study:
    """The study of that name, created if missing; `TuneError` says why it cannot be opened."""
    study = _opened(
        url,
        lambda storage: optuna.create_study(
            study_name=name,
            storage=storage,
            direction=goal,
            sampler=sampler,
            pruner=pruner,
            load_if_exists=True,
        ),
    )
    before = study.direction.name.lower()
    if before != goal:
        raise TuneError(
            f"the study {name!r} in {without_password(url)} was made to {before} its target, not "
            f"to {goal} it; give another 'study' or 'summary_base_dir'",
            slug="tune-study",
        )
    return study


def load_study(url: str, name: str | None) -> Study:
    """A study that exists, to be read; the only one if no name is given."""

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
    """Open the storage and use it; several processes may be making its tables at this moment."""
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

    Python's driver and Optuna read and then write in two transactions, so that two searches could
    take the same waiting trial. Here a transaction begins with the right to write.
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
    """The same for reading only, without a lock. `TuneError` if the file does not exist."""
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
