"""Asking Optuna's trial for the values of a space."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sonde.tune.config.space import SearchParameter, Space, Value

if TYPE_CHECKING:
    from optuna import Trial


def suggest_all(trial: Trial, space: Space) -> dict[str, Value]:
    """A value for every parameter that exists in this trial, in the order of the space."""
    values: dict[str, Value] = {}
    for parameter in space.parameters:
        if parameter.is_active(values):
            values[parameter.name] = suggest_one(trial, parameter)
    return values


def suggest_one(trial: Trial, parameter: SearchParameter) -> Value:
    """One value; the same again when asked again. ValueError if the name has another space."""
    from optuna.distributions import FloatDistribution, IntDistribution

    one = parameter.distribution()
    name = parameter.name
    if isinstance(one, FloatDistribution):
        return trial.suggest_float(name, one.low, one.high, step=one.step, log=one.log)
    if isinstance(one, IntDistribution):
        return trial.suggest_int(name, one.low, one.high, step=one.step, log=one.log)
    chosen: Value = trial.suggest_categorical(name, parameter.choices)
    return chosen
