"""A study as plain values: what ``sonde show``, the page and ``best.yaml`` are made from."""

from __future__ import annotations

import json
import math
import os
import warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sonde.core.atomic_file import write_whole
from sonde.tune.errors import TuneError

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import FrozenTrial

DATABASE = "study.db"
"""The SQLite file of a search's directory."""
POINTER_FILE = "study.json"
FORMAT = "sonde-study"
VERSION = 1
SEARCH = "sonde:search"
LEAST_FOR_IMPORTANCE = 4


@dataclass(frozen=True, slots=True)
class ListedTrial:
    """One trial. ``state`` is finished, pruned, diverged, failed, timeout, running, waiting or
    interrupted; ``value`` is finite, or None."""

    number: int
    state: str
    value: float | None
    parameters: dict[str, Any]
    seconds: float | None
    started: str
    reason: str
    origin: dict[str, Any] | None
    command: str
    directory: str
    course: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class ListedParameter:
    """One dimension of the space, as far as trials have used it."""

    name: str
    kind: str
    low: float | None = None
    high: float | None = None
    log: bool = False
    choices: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class StudyListing:
    """A study: its trials in the order of their numbers, the best, and what mattered.

    ``importance`` has a share for each parameter (they add up to 1), most important first; it is
    empty while there are fewer than four finished trials or none differ. ``best`` is the number of
    the best trial, None without one.
    """

    path: str
    study: str
    storage: str
    target: str
    goal: str
    best: int | None
    trials: tuple[ListedTrial, ...]
    parameters: tuple[ListedParameter, ...]
    importance: tuple[tuple[str, float], ...]
    search: dict[str, Any] = field(default_factory=dict)

    @property
    def best_trial(self) -> ListedTrial | None:
        return next((one for one in self.trials if one.number == self.best), None)

    def counts(self) -> dict[str, int]:
        """How many trials are in each state."""
        found: dict[str, int] = {}
        for one in self.trials:
            found[one.state] = found.get(one.state, 0) + 1
        return found

    def as_dict(self) -> dict[str, Any]:
        """Dicts, lists, texts and finite numbers only."""
        return asdict(self)


def is_study(path: str | os.PathLike[str]) -> bool:
    """Whether a directory belongs to a search of ``sonde tune``, or a file is its database."""
    place = Path(path)
    if place.is_dir():
        return (place / POINTER_FILE).is_file() or (place / DATABASE).is_file()
    return place.name == DATABASE and place.is_file()


def write_pointer(directory: Path, storage: str, study: str) -> None:
    """Leave in a search's directory where its study is."""
    directory.mkdir(parents=True, exist_ok=True)
    content = {"format": FORMAT, "version": VERSION, "storage": storage, "study": study}
    write_whole(directory / POINTER_FILE, json.dumps(content, indent=1) + "\n")


def read_study(
    path: str | os.PathLike[str], *, storage: str | None = None, study: str | None = None
) -> StudyListing:
    """The study of a search's directory, of a SQLite file, or of a storage's address.

    ``storage`` and ``study`` override what the directory says (a password is never kept there).
    `TuneError` if it does not exist or cannot be read.
    """
    _require_optuna()
    from sonde.tune.store.storage import load_study

    url, name = _address(path, storage, study)
    return list_study(load_study(url, name), path=os.fspath(path), storage=url)


def _address(
    path: str | os.PathLike[str], storage: str | None, study: str | None
) -> tuple[str, str | None]:
    from sonde.tune.store.storage import default_url

    text, place = os.fspath(path), Path(path)
    if storage is not None:
        return storage, study
    if "://" in text:
        return text, study
    if place.is_file():
        return f"sqlite:///{place.absolute()}", study
    pointer = _pointer(place)
    if pointer is not None:
        return pointer["storage"], study or pointer["study"]
    if (place / DATABASE).is_file():
        return default_url(place.absolute()), study
    raise TuneError(
        f"{place} holds no search: neither {POINTER_FILE} nor {DATABASE}", slug="tune-study"
    )


def _pointer(directory: Path) -> dict[str, str] | None:
    file = directory / POINTER_FILE
    try:
        content = json.loads(file.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise TuneError(f"{file} cannot be read: {error}", slug="tune-study") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise TuneError(f"{file} is not a pointer to a study", slug="tune-study")
    if content.get("version") != VERSION:
        raise TuneError(
            f"{file} is version {content.get('version')}; this Sonde reads {VERSION}",
            slug="tune-study",
        )
    return {"storage": str(content["storage"]), "study": str(content["study"])}


def list_study(study: Study, *, path: str = "", storage: str = "") -> StudyListing:
    """A study that is open, as plain values."""
    from sonde.tune.store.outcome import best_trial
    from sonde.tune.store.storage import without_password

    trials = study.get_trials(deepcopy=False)
    best = best_trial(trials, study.direction)
    search = study.user_attrs.get(SEARCH, {})
    listed = [_listed(one) for one in trials]
    return StudyListing(
        path=path,
        study=study.study_name,
        storage=without_password(storage),
        target=str(search.get("target", "value")),
        goal=study.direction.name.lower(),
        best=None if best is None else best.number,
        trials=tuple(one for one in listed if one.state not in ("waiting", "surplus")),
        parameters=_parameters(trials),
        importance=_importance(study, trials),
        search=dict(search),
    )


def _listed(trial: FrozenTrial) -> ListedTrial:
    from sonde.tune.store.outcome import DIRECTORY, facts_of, state_of

    facts = facts_of(trial)
    course = tuple(
        (step, value)
        for step, value in sorted(trial.intermediate_values.items())
        if math.isfinite(value)
    )
    seconds = facts.get("seconds")
    if seconds is None and trial.duration is not None:
        seconds = trial.duration.total_seconds()
    is_complete = state_of(trial) == "finished"
    return ListedTrial(
        number=trial.number,
        state=state_of(trial),
        value=trial.value if is_complete else None,
        parameters=dict(trial.params),
        seconds=seconds,
        started=""
        if trial.datetime_start is None
        else trial.datetime_start.isoformat(" ", "seconds"),
        reason=str(facts.get("reason", "")),
        origin=facts.get("origin"),
        command=str(facts.get("command", "")),
        directory=str(trial.user_attrs.get(DIRECTORY, "")),
        course=course,
    )


def _parameters(trials: list[FrozenTrial]) -> tuple[ListedParameter, ...]:
    found: dict[str, BaseDistribution] = {}
    for trial in trials:
        found.update(trial.distributions)
    return tuple(_parameter(name, one) for name, one in found.items())


def _parameter(name: str, one: BaseDistribution) -> ListedParameter:
    from optuna.distributions import FloatDistribution, IntDistribution

    if isinstance(one, FloatDistribution | IntDistribution):
        kind = "float" if isinstance(one, FloatDistribution) else "int"
        return ListedParameter(name, kind, float(one.low), float(one.high), one.log)
    return ListedParameter(name, "choice", choices=tuple(getattr(one, "choices", ())))


def _importance(study: Study, trials: list[FrozenTrial]) -> tuple[tuple[str, float], ...]:
    """Each parameter's share in the differences of the target, by PED-ANOVA (Optuna's default)."""
    import optuna
    from optuna.trial import TrialState

    values = {one.value for one in trials if one.state == TrialState.COMPLETE}
    complete = sum(1 for one in trials if one.state == TrialState.COMPLETE)
    if complete < LEAST_FOR_IMPORTANCE or len(values) < 2:
        return ()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shares = optuna.importance.get_param_importances(study)
    except (RuntimeError, ValueError):  # Optuna's, where nothing can be said of these trials
        return ()
    return tuple((name, share) for name, share in shares.items() if math.isfinite(share))


def _require_optuna() -> None:
    try:
        import optuna  # noqa: F401
    except ImportError:
        raise TuneError(
            "reading a search needs Optuna: pip install 'sonde[tune]'", slug="extra-missing"
        ) from None
