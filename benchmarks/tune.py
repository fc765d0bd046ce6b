"""The search: how much better than random, and what a trial costs beyond itself.

``--seeds 20`` for the margins, ``--trials 1000`` finished trials in the study for the cost. Times
are processor time of this process, which other programs on the machine do not change, and wall
time, which they do.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import optuna

from sonde.tune.config.file import load_config
from sonde.tune.config.search_config import TUNERS, Limits, TuneConfig, Tuner
from sonde.tune.store.outcome import OUTCOME
from sonde.tune.store.storage import open_study
from sonde.tune.trials.command import CommandTemplate
from sonde.tune.trials.runner import Runner
from sonde.tune.trials.samplers import make_pruner, make_sampler
from sonde.tune.trials.trial import Result, RunningTrial

Values = dict[str, float]


def branin(values: Values) -> float:
    """Three minima of 0.397887; the regret is the distance from it."""
    x, y = values["x0"], values["x1"]
    wave = 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10
    return (y - 5.1 / (4 * math.pi**2) * x * x + 5 / math.pi * x - 6) ** 2 + wave - 0.397887


def hartmann(values: Values) -> float:
    """Six dimensions, minimum -3.32237."""
    a = np.array(
        [
            [10, 3, 17, 3.5, 1.7, 8],
            [0.05, 10, 17, 0.1, 8, 14],
            [3, 3.5, 1.7, 10, 17, 8],
            [17, 8, 0.05, 10, 0.1, 14],
        ]
    )
    p = 1e-4 * np.array(
        [
            [1312, 1696, 5569, 124, 8283, 5886],
            [2329, 4135, 8307, 3736, 1004, 9991],
            [2348, 1451, 3522, 2883, 3047, 6650],
            [4047, 8828, 8732, 5743, 1091, 381],
        ]
    )
    x = np.array([values[f"x{index}"] for index in range(6)])
    inner = np.exp(-np.sum(a * (x - p) ** 2, axis=1))
    return 3.32237 - float(np.array([1, 1.2, 3, 3.2]) @ inner)


def ackley(values: Values) -> float:
    """Four dimensions, one global minimum of 0 among many local ones."""
    x = np.array([values[f"x{index}"] for index in range(4)])
    slope = -20 * math.exp(-0.2 * math.sqrt(float(np.mean(x * x))))
    return slope - math.exp(float(np.mean(np.cos(2 * math.pi * x)))) + 20 + math.e


FUNCTIONS: dict[str, tuple[Callable[[Values], float], list[tuple[float, float]], int]] = {
    "branin": (branin, [(-5, 10), (0, 15)], 30),
    "ackley 4": (ackley, [(-5, 5)] * 4, 40),
    "hartmann 6": (hartmann, [(0, 1)] * 6, 50),
}


def regrets(
    function: Callable[[Values], float],
    bounds: list[tuple[float, float]],
    trials: int,
    tuner: Tuner,
    seeds: int,
) -> list[float]:
    """The best value found with each seed."""
    space = {
        f"x{index}": optuna.distributions.FloatDistribution(low, high)
        for index, (low, high) in enumerate(bounds)
    }
    found = []
    for seed in range(seeds):
        study = optuna.create_study(sampler=make_sampler(replace(tuner, seed=seed)))
        for _ in range(trials):
            trial = study.ask(dict(space))
            study.tell(trial, function(trial.params))
        found.append(study.best_value)
    return found


def show_margins(seeds: int) -> None:
    tuners = {
        "random": Tuner("random"),
        "tpe": Tuner("tpe"),
        "gp ucb": Tuner("gp", "ucb"),
        "gp pi": Tuner("gp", "pi"),
        "gp ei": Tuner("gp", "ei"),
    }
    print(f"median regret over {seeds} seeds (wins against random with the same seed)")
    print("| function | trials |" + "".join(f" {name} |" for name in tuners))
    print("|---|---|" + "---|" * len(tuners))
    for name, (function, bounds, trials) in FUNCTIONS.items():
        row = f"| {name} | {trials} |"
        control: list[float] = []
        for title, tuner in tuners.items():
            found = regrets(function, bounds, trials, tuner, seeds)
            control = control or found
            wins = sum(one < other for one, other in zip(found, control, strict=True))
            row += f" {statistics.median(found):.3g}"
            row += " |" if title == "random" else f" ({wins}) |"
        print(row, flush=True)


class Silent:
    """Progress output that prints nothing."""

    def polled(self, running: list[RunningTrial]) -> None: ...

    def ended(self, running: RunningTrial, result: Result) -> None: ...

    def requeued(self, trials: list[optuna.trial.FrozenTrial]) -> None: ...


def configuration(directory: Path, tuner: Tuner) -> TuneConfig:
    path = directory / "config.yaml"
    path.write_text(
        "command: echo loss {x0} and {x3}\n"
        f"summary_base_dir: {directory / 'out'}\n"
        "parameters:\n"
        + "".join(f"  x{n}: {{bounds: [0, 1], type: float, points: 8}}\n" for n in range(4))
    )
    config = replace(load_config(path), tuner=tuner)
    return replace(config, space=config.space.as_grid()) if tuner.name == "grid" else config


def filled_study(config: TuneConfig, url: str, count: int) -> optuna.Study:
    study = open_study(
        url, "bench", "minimize", make_sampler(config.tuner), make_pruner(config.pruner)
    )
    space: dict[str, optuna.distributions.BaseDistribution] = {
        one.name: optuna.distributions.CategoricalDistribution(one.choices)
        if one.choices
        else optuna.distributions.FloatDistribution(one.low, one.largest)
        for one in config.space.parameters
    }
    draw = random.Random(0)
    trials = []
    for _ in range(count):
        values = {
            one.name: draw.choice(one.choices) if one.choices else draw.random()
            for one in config.space.parameters
        }
        trials.append(
            optuna.trial.create_trial(
                params=values,
                distributions=space,
                value=sum(float(one or 0) ** 2 for one in values.values()),
                user_attrs={OUTCOME: {"ending": "finished"}},
            )
        )
    study.add_trials(trials)
    return study


def show_cost(trials: int, measured: int) -> None:
    print(f"\ncost of a trial beyond itself, with {trials} finished trials in SQLite, in seconds")
    print("| tuner | wall | processor |\n|---|---|---|")
    words = ["echo", "loss", "0.5", "and", "0.5"]
    began = time.perf_counter()
    for _ in range(50):
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    bare = (time.perf_counter() - began) / 50
    for name in TUNERS:
        for method in ("ei", "ucb") if name == "gp" else ("ei",):
            with tempfile.TemporaryDirectory() as place:
                tuner = Tuner(name, method, seed=0)  # type: ignore[arg-type]
                config = configuration(Path(place), tuner)
                study = filled_study(config, f"sqlite:///{place}/study.db", trials)
                _run(config, study, trials + 2)  # imports, the first fit
                wall, processor = time.perf_counter(), time.process_time()
                _run(config, study, trials + 2 + measured)
                wall = (time.perf_counter() - wall) / measured - bare
                processor = (time.process_time() - processor) / measured
            title = f"gp {method}" if name == "gp" else name
            print(f"| {title} | {wall:.3f} | {processor:.3f} |", flush=True)


def _run(config: TuneConfig, study: optuna.Study, until: int) -> None:
    limited = replace(config, limits=Limits(trials=until))
    Runner(limited, study, CommandTemplate(limited), Silent()).run()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--measured", type=int, default=20)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    if given.trials:
        show_cost(given.trials, given.measured)
    if given.seeds:
        show_margins(given.seeds)


if __name__ == "__main__":
    sys.exit(main())
