"""Where a study is kept: a SQLite file by default, or anything Optuna can store in."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.study import Study

from sonde.tune.config import Goal
from sonde.tune.errors import TuneError
from sonde.tune.listing import DATABASE
from sonde.tune.sqlite import open_sqlite, read_sqlite

if TYPE_CHECKING:
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler

_OPENINGS = 5
_PASSWORD = re.compile(r"(?<=://)([^:/@]+):[^@/]*@")


def default_url(directory: Path) -> str:
    """The SQLite file of a search's directory."""
    return f"sqlite:///{directory / DATABASE}"


def without_password(url: str) -> str:
    """A storage's address as it may be shown."""
    return _PASSWORD.sub(r"\1:***@", url)


def open_study(url: str, name: str, goal: Goal, sampler: BaseSampler, pruner: BasePruner) -> Study:
    """The study of that name, made if there is none; `TuneError` says why it cannot be opened."""
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
