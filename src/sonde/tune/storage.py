"""Where a study is kept: a SQLite file by default, or anything Optuna can store in.

A search may be killed at any time and on any machine. Every trial names its owner (host, boot,
process); one whose owner is gone is taken back and tried again.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import sqlite3
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import optuna
from optuna.exceptions import ExperimentalWarning, OptunaError
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from sonde.tune.config import Goal
from sonde.tune.errors import TuneError
from sonde.tune.listing import DATABASE
from sonde.tune.outcome import ATTEMPT, OWNER

if TYPE_CHECKING:
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler

LOCK_SECONDS = 60
"""How long SQLite waits for another process's write."""
STALE_SECONDS = 600.0
"""After how long without a sign of life a trial of another machine is taken back."""
MOST_ATTEMPTS = 3
"""How often the same values are tried when the search dies with them."""
_OPENINGS = 5
_PASSWORD = re.compile(r"(?<=://)([^:/@]+):[^@/]*@")


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that runs a trial; the boot and start time tell it from a later namesake."""

    host: str
    boot: str
    pid: int
    started: str

    def is_gone(self) -> bool:
        """Whether the process is known not to run any more."""
        if self.host != socket.gethostname():
            return False
        return self.boot != boot_id() or self.started != process_start(self.pid)


def this_process() -> Owner:
    pid = os.getpid()
    return Owner(socket.gethostname(), boot_id(), pid, process_start(pid))


@cache
def boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def process_start(pid: int) -> str:
    """When a process started, in ticks since boot; empty if it does not run."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    fields = text.rpartition(")")[2].split()
    return "" if fields[0] in ("Z", "X") else fields[19]


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

    return _opened(url, load)


def _opened(url: str, use: Callable[[BaseStorage], Study]) -> Study:
    """Open the storage and use it; several processes may be making its tables at this moment."""
    failure: BaseException | None = None
    for attempt in range(_OPENINGS):
        try:
            return use(_storage(url))
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


def _storage(url: str) -> BaseStorage:
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
            Path(url.partition(":///")[2]).parent.mkdir(parents=True, exist_ok=True)
            with _one_at_a_time(Path(url.partition(":///")[2])):
                arguments = {"timeout": LOCK_SECONDS, "factory": _Connection}
                return RDBStorage(url, engine_kwargs={"connect_args": arguments})
        if not rest:
            raise ValueError(
                "is not a storage such as sqlite:///file.db, postgresql://user@host/name, "
                "journal:///file.log or grpc://host:port"
            )
        return RDBStorage(url, engine_kwargs={"pool_pre_ping": True})


class _Connection(sqlite3.Connection):
    """With a write-ahead log: readers do not wait, and a write is as safe at half the price."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
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


def ask_signed(study: Study) -> optuna.Trial:
    """A new trial, or the first that waits; it names an owner from its first moment.

    A search that dies between asking and signing would else leave a trial nobody takes back.
    """
    if not study.get_trials(deepcopy=False, states=(TrialState.WAITING,)):
        study.enqueue_trial({}, user_attrs={OWNER: signature()})
    trial = study.ask()
    if not _is_mine(trial.user_attrs.get(OWNER)):
        trial.set_user_attr(OWNER, signature())
    return trial


def signature() -> dict[str, Any]:
    """This process as the owner of a trial, with a sign of life."""
    return {**asdict(this_process()), "alive": time.time()}


def _is_mine(owner: Any) -> bool:
    return isinstance(owner, dict) and _owner(owner) == this_process()


def _owner(content: dict[str, Any]) -> Owner:
    return Owner(content["host"], content["boot"], content["pid"], content["started"])


def recover(study: Study) -> list[FrozenTrial]:
    """Take back the trials whose owner is gone and queue their values again.

    The result are the trials taken back. Several searches may do this at once: each trial is
    taken by one of them.
    """
    taken = []
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        if not is_abandoned(trial):
            continue
        with contextlib.suppress(OptunaError, ValueError, RuntimeError):  # another was faster
            study.tell(trial.number, state=TrialState.FAIL)
            taken.append(trial)
            attempt = int(trial.user_attrs.get(ATTEMPT, 1))
            if trial.params and attempt < MOST_ATTEMPTS:
                study.enqueue_trial(
                    trial.params, user_attrs={OWNER: signature(), ATTEMPT: attempt + 1}
                )
    return taken


def is_abandoned(trial: FrozenTrial) -> bool:
    """Whether a running trial's owner is gone, or has been silent for too long."""
    owner = trial.user_attrs.get(OWNER)
    if not isinstance(owner, dict):
        return False  # another tool's trial
    if _owner(owner).is_gone():
        return True
    is_here = owner["host"] == socket.gethostname()
    return not is_here and time.time() - float(owner["alive"]) > STALE_SECONDS
