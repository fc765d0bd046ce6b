"""``sonde.tune.search``: the same search over a Python function, in this process."""

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
from typing import TYPE_CHECKING, Any

from sonde.core.settings import Problems
from sonde.tune.config.file import MOST_OF_A_GRID
from sonde.tune.config.parameters import read_space
from sonde.tune.config.search_config import (
    DivergenceSettings,
    Goal,
    Limits,
    Pruner,
    PrunerName,
    SearchTarget,
    TuneConfig,
    Tuner,
)
from sonde.tune.config.space import SearchParameter, Space, Value
from sonde.tune.config.yaml_lines import located
from sonde.tune.errors import TuneError
from sonde.tune.script_side.current import IN_PROCESS
from sonde.tune.script_side.hyper_config import HyperParameters
from sonde.tune.store.listing import StudyListing, list_study
from sonde.tune.store.outcome import Ending, record
from sonde.tune.trials.divergence import NonFiniteOrigin, find_origin
from sonde.tune.trials.sampling import suggest_all, suggest_one
from sonde.tune.trials.series import Series
from sonde.tune.trials.trial_output import ReportedValue

if TYPE_CHECKING:
    from optuna import Trial
    from optuna.study import Study

Objective = Callable[[HyperParameters], Any]


class TrialStopped(Exception):  # noqa: N818 - the trial is, nothing went wrong
    """Raised out of `report()` to end a trial of `search` early; let it pass."""

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

    ``space`` is what ``parameters`` is in a configuration. The function returns the number to
    improve, or reports it with `sonde.tune.report`, which also ends trials that a pruner gives up
    or that diverge. Limits: ``trials`` of the study in all, ``seconds``, ``patience`` (trials
    without improvement), ``value`` (good enough). With a ``storage`` the study is kept, continued
    by the next call, and shared with others. What the function raises ends the search. A diverged
    trial is run a second time, observed, to name the op (``explain=False`` does without).
    """
    config = _config(
        space, goal, tuner, pruner, seed, Limits(trials, seconds, None, patience, value)
    )
    config = replace(
        config, divergence=DivergenceSettings(explain=explain), study=study, storage=storage
    )
    with _quiet():
        opened = _study(config)
        _run(config, opened, function)
        return list_study(opened, storage=storage or "")


def _run(config: TuneConfig, study: Study, function: Objective) -> None:
    from sonde.tune.store.ownership import ask_signed, recover
    from sonde.tune.trials.progress import Progress

    recover(study)
    progress = Progress(config, study)
    while progress.why_over() is None:
        trial = ask_signed(study)
        values = suggest_all(trial, config.space)
        _one_trial(config, study, trial, values, function)


def _one_trial(
    config: TuneConfig,
    study: Study,
    trial: Trial,
    values: dict[str, Value],
    function: Objective,
) -> None:
    from optuna.trial import TrialState

    current = FunctionTrial(trial, values, config.target)
    ending: Ending
    began = time.monotonic()
    try:
        result = current.call(function)
    except TrialStopped as stopped:
        ending, reason, result = stopped.ending, stopped.reason, None
    except BaseException:
        record(trial, "failed")
        study.tell(trial, state=TrialState.FAIL)
        raise
    else:
        ending, reason = ("finished", "") if _is_finite(result) else ("diverged", f"it is {result}")
    seconds = round(time.monotonic() - began, 3)
    origin = None
    if ending == "diverged" and config.divergence.explain:
        origin = _why(function, current.values, config.target)
        reason = reason if origin is None else f"{reason}; {origin}"
    told = None if origin is None else asdict(origin)
    record(trial, ending, seconds=seconds, reason=reason, origin=told)
    if ending == "finished":
        study.tell(trial, result)
    else:
        study.tell(trial, state=TrialState.PRUNED)


class FunctionTrial:
    """The trial that runs a function of `search`; the counterpart of `CurrentTrial`."""

    def __init__(
        self, trial: Trial | None, values: Mapping[str, Value], target: SearchTarget
    ) -> None:
        self._trial = trial
        self.values = dict(values)
        self._series = Series(target)
        self._target = target
        self._count = 0

    def call(self, function: Objective) -> float:
        """The function's number: what it returned, else the last it reported."""
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
            self.values[name] = suggest_one(self._trial, parameter)
        return self.values[name]

    def report(self, metrics: Mapping[str, float], step: int | None) -> None:
        is_alone = len(metrics) == 1
        self._count += 1
        number = self._count if step is None else step
        observed = [
            ReportedValue(
                name or self._target.name,
                one,
                number,
                "report",
                name in ("", self._target.name) or is_alone,
            )
            for name, one in metrics.items()
        ]
        new = self._series.note(observed)
        broken = self._series.broken
        if broken is not None:
            raise TrialStopped("diverged", f"{broken.name} is {broken.value} at step {number}")
        for at, one in new:
            if self._trial is not None:
                self._trial.report(one, at)
                if self._trial.should_prune():
                    raise TrialStopped("pruned", f"not promising at step {at} ({one:.6g})")


def _why(
    function: Objective, values: Mapping[str, Value], target: SearchTarget
) -> NonFiniteOrigin | None:
    """The op that made the first NaN or Inf, from a second call of the function, observed."""
    from sonde.capture.options import config_from_options

    with tempfile.TemporaryDirectory(prefix="sonde-tune-") as place:
        capture: Any = import_module("sonde.capture")
        config = config_from_options(Path(place), {}, overflow=True)
        said = io.StringIO()  # what it prints was printed the first time
        try:
            with redirect_stdout(said), redirect_stderr(said), capture(config):
                FunctionTrial(None, values, target).call(function)
        except TrialStopped:
            pass
        except ImportError:
            return None  # no framework to observe
        return find_origin(Path(place))


def _config(
    space: Mapping[str, Any],
    goal: Goal,
    tuner: Tuner | str,
    pruner: Pruner | PrunerName,
    seed: int | None,
    limits: Limits,
) -> TuneConfig:
    problems = Problems("search()")
    read = read_space(located(space), "space", problems)
    problems.raise_if_any()
    chosen = tuner if isinstance(tuner, Tuner) else replace(Tuner(), name=_checked(tuner))
    if chosen.name == "grid":
        read = _grid(read)
    return TuneConfig(
        path=Path(),
        command=(),
        directory=Path(),
        space=read,
        tuner=replace(chosen, seed=chosen.seed if seed is None else seed),
        pruner=pruner if isinstance(pruner, Pruner) else Pruner(pruner),
        target=SearchTarget(name="value", goal=goal),
        limits=limits,
    )


def _checked(name: str) -> Any:
    from sonde.tune.config.search_config import TUNERS

    if name not in TUNERS:
        raise TuneError(
            f"search(): tuner {name!r} is not one of {', '.join(TUNERS)}", slug="tune-value"
        )
    return name


def _grid(space: Space) -> Space:
    for one in space.parameters:
        if one.kind == "float" and one.step is None and one.points is None:
            raise TuneError(
                f"search(): a grid needs 'points', 'step' or 'decimal' for {one.name}",
                slug="tune-space",
            )
    if any(one.candidate_count > MOST_OF_A_GRID for one in space.parameters):
        raise TuneError("search(): the grid is too large; give 'points'", slug="tune-space")
    return space.as_grid()


def _study(config: TuneConfig) -> Study:
    import optuna

    from sonde.tune.store.storage import open_study
    from sonde.tune.trials.samplers import make_pruner, make_sampler

    sampler, pruner = make_sampler(config.tuner), make_pruner(config.pruner)
    if config.storage is None:
        return optuna.create_study(
            direction=config.target.goal,
            sampler=sampler,
            pruner=pruner,
            study_name=config.study,
        )
    return open_study(config.storage, config.study, config.target.goal, sampler, pruner)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Optuna's log of every trial is not wanted here; its level is put back afterwards."""
    from optuna import logging

    level = logging.get_verbosity()
    logging.set_verbosity(max(level, logging.WARNING))
    try:
        yield
    finally:
        logging.set_verbosity(level)


def _is_finite(value: Any) -> bool:
    return isinstance(value, float) and math.isfinite(value)
