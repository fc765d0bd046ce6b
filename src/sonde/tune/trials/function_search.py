"""``sonde.tune.search``: a search over a Python function, in this process."""

from __future__ import annotations

import contextlib
import io
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from sonde.core.settings import Problems
from sonde.tune.config.parameters import read_space
from sonde.tune.config.search_config import (
    TUNERS,
    DivergenceSettings,
    Goal,
    Limits,
    Pruner,
    PrunerName,
    SearchTarget,
    TuneConfig,
    Tuner,
    TunerName,
)
from sonde.tune.config.space import SearchParameter, Value
from sonde.tune.config.yaml_lines import located
from sonde.tune.errors import TuneError
from sonde.tune.script_side.current import IN_PROCESS, HyperParameters
from sonde.tune.store.listing import StudyListing, list_study
from sonde.tune.store.outcome import Ending, record
from sonde.tune.trials.divergence import NonFiniteOrigin, find_origin
from sonde.tune.trials.trial_output import ReportedValue, Series

if TYPE_CHECKING:
    from optuna import Trial
    from optuna.study import Study

Objective = Callable[[HyperParameters], Any]


class TrialStopped(Exception):  # noqa: N818 - not an error
    """Raised by `report()` to end a trial of `search` early; do not catch it."""

    def __init__(self, ending: Ending, reason: str) -> None:
        super().__init__(reason)
        self.ending = ending
        self.reason = reason


def search(
    function: Objective,
    space: Mapping[str, Any],
    *,
    trials: int | None = 50,
    goal: Goal = "minimize",
    tuner: Tuner | str = "gp",
    pruner: Pruner | PrunerName = "none",
    seed: int | None = None,
    seconds: float | None = None,
    patience: int | None = None,
    value: float | None = None,
    storage: str | None = None,
    study: str = "search",
    explain: bool = True,
) -> StudyListing:
    """Call ``function(parameters)`` with values of ``space`` until a limit is reached.

    ``space`` has the format of ``parameters`` in a configuration. The function returns the number
    to improve, or reports it with `sonde.tune.report`, which also ends trials that the pruner stops
    or that diverge. Limits: ``trials`` in the study, ``seconds``, ``patience`` (trials without
    improvement), ``value`` (good enough). With a ``storage`` the study is saved, continued by the
    next call, and shared with other processes. An exception in the function ends the search. With
    ``explain``, a diverged trial is run a second time to find the op that produced NaN or Inf.
    """
    problems = Problems("search()")
    read = read_space(located(space), "space", problems)
    problems.raise_if_any()
    tuner = _tuner(tuner, seed)
    config = TuneConfig(
        path=Path(),
        command=(),
        directory=Path(),
        space=read.as_grid() if tuner.name == "grid" else read,
        tuner=tuner,
        pruner=pruner if isinstance(pruner, Pruner) else Pruner(pruner),
        target=SearchTarget(name="value", goal=goal),
        limits=Limits(trials, seconds, None, patience, value),
        divergence=DivergenceSettings(explain=explain),
        study=study,
        storage=storage,
    )
    with _quiet():
        return list_study(_run(config, function), storage=storage or "")


def _tuner(tuner: Tuner | str, seed: int | None) -> Tuner:
    if not isinstance(tuner, Tuner):
        if tuner not in TUNERS:
            raise TuneError(
                f"search(): tuner {tuner!r} is not one of {', '.join(TUNERS)}", slug="tune-value"
            )
        tuner = Tuner(cast(TunerName, tuner))
    return tuner if seed is None else replace(tuner, seed=seed)


def _run(config: TuneConfig, function: Objective) -> Study:
    from sonde.tune.store.ownership import ask_signed, recover
    from sonde.tune.store.storage import open_study
    from sonde.tune.trials.progress import Progress
    from sonde.tune.trials.samplers import make_pruner, make_sampler

    sampler, pruner = make_sampler(config.tuner), make_pruner(config.pruner)
    study = open_study(config.storage, config.study, config.target.goal, sampler, pruner)
    recover(study)
    progress = Progress(config, study)
    while progress.why_over() is None:
        _one_trial(config, study, ask_signed(study), function)
    return study


def _one_trial(config: TuneConfig, study: Study, trial: Trial, function: Objective) -> None:
    from optuna.trial import TrialState

    current = FunctionTrial(trial, config.space.suggest(trial), config.target)
    ending: Ending
    began = time.monotonic()
    result: float | None = None
    try:
        result = current.call(function)
    except TrialStopped as stopped:
        ending, reason = stopped.ending, stopped.reason
    except BaseException:
        record(trial, "failed")
        study.tell(trial, state=TrialState.FAIL)
        raise
    else:
        is_finite = math.isfinite(result)
        ending, reason = ("finished", "") if is_finite else ("diverged", f"it is {result}")
    seconds = round(time.monotonic() - began, 3)
    origin = None
    if ending == "diverged" and config.divergence.explain:
        origin = _why(function, current.values, config.target)
        reason = reason if origin is None else f"{reason}; {origin}"
    facts = None if origin is None else asdict(origin)
    record(trial, ending, seconds=seconds, reason=reason, origin=facts)
    if ending == "finished":
        study.tell(trial, result)
    else:
        study.tell(trial, state=TrialState.PRUNED)


class FunctionTrial:
    """The trial of a function of `search`; a `CurrentTrial`."""

    def __init__(
        self, trial: Trial | None, values: Mapping[str, Value], target: SearchTarget
    ) -> None:
        self._trial = trial
        self.values = dict(values)
        self._series = Series(target)
        self._target = target
        self._count = 0

    def call(self, function: Objective) -> float:
        """The number that the function returned, or else the last it reported."""
        token = IN_PROCESS.set(self)
        try:
            returned = function(HyperParameters(self.values))
        finally:
            IN_PROCESS.reset(token)
        if returned is None:
            returned = self._series.result()
        try:
            return float(returned)
        except (TypeError, ValueError):
            raise TuneError(
                f"the function returned {returned!r} and reported nothing; it must give a number",
                slug="tune-report",
            ) from None

    def value(self, name: str, parameter: SearchParameter | None) -> Value:
        if name not in self.values:
            if parameter is None or self._trial is None:
                raise KeyError(name, tuple(self.values))
            self.values[name] = parameter.suggest(self._trial)
        return self.values[name]

    def report(self, metrics: Mapping[str, float], step: int | None) -> None:
        is_alone = len(metrics) == 1
        self._count += 1
        number = self._count if step is None else step
        target = self._target.name
        new = self._series.note(
            ReportedValue(name or target, one, number, "report", is_alone or name in ("", target))
            for name, one in metrics.items()
        )
        bad = self._series.non_finite
        if bad is not None:
            raise TrialStopped("diverged", f"{bad.name} is {bad.value} at step {number}")
        for at, one in new:
            if self._trial is not None:
                self._trial.report(one, at)
                if self._trial.should_prune():
                    raise TrialStopped("pruned", f"not promising at step {at} ({one:.6g})")


def _why(
    function: Objective, values: Mapping[str, Value], target: SearchTarget
) -> NonFiniteOrigin | None:
    """The op that produced the first NaN or Inf in a second call of the function."""
    from sonde.capture.options import config_from_options

    with tempfile.TemporaryDirectory(prefix="sonde-tune-") as place:
        capture: Any = import_module("sonde.capture")
        config = config_from_options(Path(place), {}, overflow=True)
        hidden = io.StringIO()  # the first call has printed the same
        try:
            with redirect_stdout(hidden), redirect_stderr(hidden), capture(config):
                FunctionTrial(None, values, target).call(function)
        except TrialStopped:
            pass
        except ImportError:
            return None  # no framework to observe
        return find_origin(Path(place))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence Optuna's log of every trial; its level is restored afterwards."""
    from optuna import logging

    level = logging.get_verbosity()
    logging.set_verbosity(max(level, logging.WARNING))
    try:
        yield
    finally:
        logging.set_verbosity(level)
