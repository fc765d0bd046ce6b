"""The configuration of a search, as values; `file` reads it from YAML."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from sonde.tune.config.space import Space

TunerName = Literal["gp", "tpe", "random", "grid", "cma-es"]
PrunerName = Literal["none", "median", "hyperband"]
Method = Literal["ucb", "pi", "ei"]
Goal = Literal["minimize", "maximize"]
Origin = Literal["auto", "report", "summary", "log"]

TUNERS = ("gp", "tpe", "random", "grid", "cma-es")
PRUNERS = ("none", "median", "hyperband")
METHODS = ("ucb", "pi", "ei")


@dataclass(frozen=True, slots=True)
class Tuner:
    """How values are chosen; the first ``startup_trials`` trials are random.

    The default method is ``ei``, which finds better values in fewer trials; a configuration that
    names gp without a method gets MindOptimizer's ``ucb``.
    """

    name: TunerName = "gp"
    method: Method = "ei"
    seed: int | None = None
    startup_trials: int | None = None


@dataclass(frozen=True, slots=True)
class Pruner:
    """Which trials are stopped early, by the values they report while they run."""

    name: PrunerName = "none"
    startup_trials: int = 5
    warmup_steps: int = 0
    interval_steps: int = 1
    min_resource: int = 1
    max_resource: int | None = None
    reduction_factor: int = 3


@dataclass(frozen=True, slots=True)
class SearchTarget:
    """The number that the search improves; ``keep`` chooses the last or the best of a trial."""

    name: str = "loss"
    group: Literal["metric", "system_defined"] = "system_defined"
    goal: Goal = "minimize"
    origin: Origin = "auto"
    pattern: re.Pattern[str] | None = None
    keep: Literal["last", "best"] = "last"


@dataclass(frozen=True, slots=True)
class Limits:
    """When a search, or one trial, ends; None: no limit. Times are in seconds."""

    trials: int | None = None
    time: float | None = None
    trial_time: float | None = None
    patience: int | None = None
    value: float | None = None


@dataclass(frozen=True, slots=True)
class DivergenceSettings:
    """What happens to a trial whose loss becomes NaN or infinite."""

    stop: bool = True
    explain: bool = True
    seconds: float = 120.0


@dataclass(frozen=True, slots=True)
class TuneConfig:
    """A valid search.

    ``command`` are the words of the training command and ``assignments`` the ``NAME=value`` before
    them; ``directory`` is absolute and need not exist.
    """

    path: Path
    command: tuple[str, ...]
    directory: Path
    space: Space
    assignments: tuple[tuple[str, str], ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    tuner: Tuner = field(default_factory=Tuner)
    pruner: Pruner = field(default_factory=Pruner)
    target: SearchTarget = field(default_factory=SearchTarget)
    limits: Limits = field(default_factory=Limits)
    divergence: DivergenceSettings = field(default_factory=DivergenceSettings)
    parallel: int = 1
    storage: str | None = None
    study: str = "study"
