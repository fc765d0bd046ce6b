"""A study as plain values, for ``sonde show``, the page and ``best.yaml``."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sonde.core.files.atomic_file import write_whole
from sonde.core.files.input_file import read_input
from sonde.tune.errors import TuneError, require
from sonde.tune.store.outcome import DIRECTORY, best_trial, facts_of, state_of

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
    """One dimension of the space, as the trials used it."""

    name: str
    kind: str
    low: float | None = None
    high: float | None = None
    log: bool = False
    choices: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class StudyListing:
    """A study: its trials by number, the best one, and the importance of the parameters.

    ``importance`` has a share for each parameter (they add up to 1), most important first; it is
    empty with fewer than four finished trials, or if all have the same value. ``best`` is the
    number of the best trial, or None.
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
        return dict(Counter(one.state for one in self.trials))

    def as_dict(self) -> dict[str, Any]:
        """Dicts, lists, texts and finite numbers only."""
        return asdict(self)


def is_study(path: str | os.PathLike[str]) -> bool:
    """Whether the path is a directory of ``sonde tune``, or its database file."""
    place = Path(path)
    if place.is_dir():
        return (place / POINTER_FILE).is_file() or (place / DATABASE).is_file()
    return place.name == DATABASE and place.is_file()


def write_pointer(directory: Path, storage: str, study: str) -> None:
    """Write the address of the study into the directory of a search."""
    directory.mkdir(parents=True, exist_ok=True)
    content = {"format": FORMAT, "version": VERSION, "storage": storage, "study": study}
    write_whole(directory / POINTER_FILE, json.dumps(content, indent=1) + "\n")


def read_study(
    path: str | os.PathLike[str], *, storage: str | None = None, study: str | None = None
) -> StudyListing:
    """The study in a search's directory, in a SQLite file, or at a storage URL.

    ``storage`` and ``study`` override the address in the directory (which has no password).
    `TuneError` if the study does not exist or cannot be read.
    """
    require("optuna", "Optuna", "reading a search")
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
        content = json.loads(read_input(file))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise TuneError(f"{file} cannot be read: {error}", slug="tune-study") from None
    if (
        not isinstance(content, dict)
        or content.get("format") != FORMAT
        or not {"version", "storage", "study"} <= content.keys()
    ):
        raise TuneError(f"{file} is not a pointer to a study", slug="tune-study")
    if content.get("version") != VERSION:
        raise TuneError(
            f"{file} is version {content.get('version')}; this Sonde reads {VERSION}",
            slug="tune-study",
        )
    return {"storage": str(content["storage"]), "study": str(content["study"])}


def list_study(study: Study, *, path: str = "", storage: str = "") -> StudyListing:
    """An open study as plain values."""
    from sonde.tune.store.storage import without_password

    trials = study.get_trials(deepcopy=False)
    best = best_trial(trials, study.direction)
    search = study.user_attrs.get(SEARCH, {})
    listed = [_listed(one) for one in trials]
    distributions = {name: one for trial in trials for name, one in trial.distributions.items()}
    return StudyListing(
        path=path,
        study=study.study_name,
        storage=without_password(storage),
        target=str(search.get("target", "value")),
        goal=study.direction.name.lower(),
        best=None if best is None else best.number,
        trials=tuple(one for one in listed if one.state not in ("waiting", "surplus")),
        parameters=tuple(_parameter(name, one) for name, one in distributions.items()),
        importance=_importance(study, trials),
        search=dict(search),
    )


def _listed(trial: FrozenTrial) -> ListedTrial:
    facts = facts_of(trial)
    course = tuple(
        (step, value)
        for step, value in sorted(trial.intermediate_values.items())
        if math.isfinite(value)
    )
    seconds = facts.get("seconds")
    if seconds is None and trial.duration is not None:
        seconds = trial.duration.total_seconds()
    state = state_of(trial)
    began = trial.datetime_start
    return ListedTrial(
        number=trial.number,
        state=state,
        value=trial.value if state == "finished" else None,
        parameters=dict(trial.params),
        seconds=seconds,
        started="" if began is None else began.isoformat(" ", "seconds"),
        reason=str(facts.get("reason", "")),
        origin=facts.get("origin"),
        command=str(facts.get("command", "")),
        directory=str(trial.user_attrs.get(DIRECTORY, "")),
        course=course,
    )


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

    values = [one.value for one in trials if one.state == TrialState.COMPLETE]
    if len(values) < LEAST_FOR_IMPORTANCE or len(set(values)) < 2:
        return ()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shares = optuna.importance.get_param_importances(study)
    except (RuntimeError, ValueError):  # Optuna cannot compute it for these trials
        return ()
    return tuple((name, share) for name, share in shares.items() if math.isfinite(share))
