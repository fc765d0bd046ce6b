"""The space of a search: the values of each parameter, and in which trials it exists."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, Literal

from sonde.tune.errors import TuneError

if TYPE_CHECKING:
    from optuna import Trial

Kind = Literal["float", "int", "choice"]
Source = Literal["system_defined", "user_defined"]
Value = float | int | str | bool | None

MOST_OF_A_GRID = 100_000

SYSTEM_DEFINED: dict[str, Kind] = {"learning_rate": "float", "batch_size": "int", "epoch": "int"}
"""The parameters that MindOptimizer defines, and their types."""


@dataclass(frozen=True, slots=True)
class ParameterCondition:
    """The parameter ``name`` has one of these values."""

    name: str
    values: tuple[Value, ...]

    def holds(self, values: Mapping[str, Value]) -> bool:
        return self.name in values and any(_same(values[self.name], one) for one in self.values)


@dataclass(frozen=True, slots=True)
class SearchParameter:
    """One dimension. Numbers are in [low, high); with ``step`` they are low, low + step, ...

    ``points`` is how many values of a range without step a grid tries. The parameter exists in a
    trial if all ``conditions`` hold. ``argument`` and ``environment`` are the option or variable
    that passes it to the script; without them it is found in the command and the script.
    """

    name: str
    kind: Kind
    low: float = 0.0
    high: float = 0.0
    step: float | None = None
    log: bool = False
    choices: tuple[Value, ...] = ()
    points: int | None = None
    source: Source = "user_defined"
    conditions: tuple[ParameterCondition, ...] = ()
    argument: str | None = None
    environment: str | None = None

    def is_active(self, values: Mapping[str, Value]) -> bool:
        """Whether it exists in a trial whose earlier parameters have these values."""
        return all(condition.holds(values) for condition in self.conditions)

    @property
    def largest(self) -> float:
        """The greatest value: below ``high``, on the grid if there is one."""
        if self.kind == "int":
            steps = math.ceil((self.high - self.low) / (self.step or 1)) - 1
            return int(self.low + steps * (self.step or 1))
        if self.step is None:
            return self.high
        steps = math.ceil(round((self.high - self.low) / self.step, 9)) - 1
        # In decimals, as Optuna counts: 0.1 + 2 * 0.1 is not 0.3 in binary.
        return float(Decimal(str(self.low)) + steps * Decimal(str(self.step)))

    def suggest(self, trial: Trial) -> Value:
        """Ask Optuna for the value of a trial; the same value when asked again.

        ValueError if the study knows another space by this name.
        """
        if self.kind == "choice":
            chosen: Value = trial.suggest_categorical(self.name, self.choices)
            return chosen
        if self.kind == "int":
            step = 1 if self.log else int(self.step or 1)
            low, high = int(self.low), int(self.largest)
            return trial.suggest_int(self.name, low, high, step=step, log=self.log)
        return trial.suggest_float(self.name, self.low, self.largest, step=self.step, log=self.log)

    @property
    def candidate_count(self) -> int:
        """How many values a grid tries."""
        if self.kind == "choice":
            return len(self.choices)
        if self.points is not None:
            return self.points
        return math.floor(round((self.largest - self.low) / (self.step or 1), 9)) + 1

    def candidates(self) -> tuple[Value, ...]:
        """All values for a grid; for a range without step, ``points`` evenly spaced ones."""
        if self.kind == "choice":
            return self.choices
        if self.points is not None:
            return self._spaced(self.points)
        step = self.step or 1
        found = (self.low + index * step for index in range(self.candidate_count))
        return tuple(int(one) if self.kind == "int" else round(one, 12) for one in found)

    def _spaced(self, count: int) -> tuple[Value, ...]:
        low, high = self.low, float(self.largest)
        if self.log:
            low, high = math.log(low), math.log(high)
        shares = [index / (count - 1) if count > 1 else 0.5 for index in range(count)]
        found = [low + (high - low) * share for share in shares]
        if self.log:
            found = [math.exp(one) for one in found]
        if self.kind == "int":
            return tuple(dict.fromkeys(round(one) for one in found))
        return tuple(dict.fromkeys(float(f"{one:.12g}") for one in found))


@dataclass(frozen=True, slots=True)
class Space:
    """Parameters, each after those that its conditions name."""

    parameters: tuple[SearchParameter, ...]

    def __getitem__(self, name: str) -> SearchParameter:
        return next(one for one in self.parameters if one.name == name)

    def __contains__(self, name: str) -> bool:
        return any(one.name == name for one in self.parameters)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.parameters)

    def suggest(self, trial: Trial) -> dict[str, Value]:
        """A value for every parameter that exists in this trial, in the order of the space."""
        values: dict[str, Value] = {}
        for parameter in self.parameters:
            if parameter.is_active(values):
                values[parameter.name] = parameter.suggest(trial)
        return values

    def as_grid(self) -> Space:
        """The same space with every range replaced by the values a grid tries.

        `TuneError` for a range without ``points``, ``step`` or ``decimal``, or of too many values.
        """
        for one in self.parameters:
            if one.kind == "float" and one.step is None and one.points is None:
                raise TuneError(
                    "a grid needs 'points' (how many), 'step' or 'decimal', to know which values "
                    f"of {one.name} to try",
                    slug="tune-space",
                )
            if one.candidate_count > MOST_OF_A_GRID:
                raise too_large_a_grid()
        return Space(
            tuple(
                replace(one, kind="choice", choices=one.candidates(), step=None, log=False)
                for one in self.parameters
            )
        )

    def combinations(self) -> Iterator[tuple[tuple[str, Value], ...]]:
        """Every point of a space of choices; parameters are left out where they do not exist."""

        def extend(values: dict[str, Value], rest: Sequence[SearchParameter]) -> Iterator[Any]:
            if not rest:
                yield tuple(values.items())
                return
            first, *others = rest
            if not first.is_active(values):
                yield from extend(values, others)
                return
            for one in first.choices:
                yield from extend({**values, first.name: one}, others)

        yield from extend({}, self.parameters)

    def size(self, most: int) -> int:
        """The number of combinations, counted up to ``most`` + 1."""
        return sum(1 for _ in itertools.islice(self.combinations(), most + 1))


def too_large_a_grid() -> TuneError:
    return TuneError(
        f"a grid would have more than {MOST_OF_A_GRID:,} trials; give 'points' or a larger step",
        slug="tune-space",
    )


def ordered(parameters: Sequence[SearchParameter]) -> tuple[SearchParameter, ...] | None:
    """The parameters, each after those its conditions name; None if conditions form a circle."""
    by_name = {one.name: one for one in parameters}
    names = list(by_name)
    sorter = TopologicalSorter(
        {
            one.name: [each.name for each in one.conditions if each.name in by_name]
            for one in parameters
        }
    )
    found: list[str] = []
    try:
        sorter.prepare()
    except CycleError:
        return None
    while sorter.is_active():
        ready = sorted(sorter.get_ready(), key=names.index)
        found += ready
        sorter.done(*ready)
    return tuple(by_name[name] for name in found)


def _same(one: Value, other: Value) -> bool:
    """Equal, and not a boolean that equals a number."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)
