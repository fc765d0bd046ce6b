"""The space of a search: what values each parameter may take, and when it exists at all."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

Kind = Literal["float", "int", "choice"]
Source = Literal["system_defined", "user_defined"]
Value = float | int | str | bool | None

SYSTEM_DEFINED: dict[str, Kind] = {"learning_rate": "float", "batch_size": "int", "epoch": "int"}
"""The parameters MindOptimizer knows by itself, and their types."""


@dataclass(frozen=True, slots=True)
class ParameterCondition:
    """The parameter ``name`` has one of these values."""

    name: str
    values: tuple[Value, ...]

    def holds(self, values: Mapping[str, Value]) -> bool:
        return self.name in values and any(_same(values[self.name], one) for one in self.values)


@dataclass(frozen=True, slots=True)
class SearchParameter:
    """One dimension. Numbers lie in [low, high); with ``step`` on low, low + step, ...

    ``points`` is how many values of a range without step a grid tries. ``conditions`` must all
    hold for the parameter to exist in a trial. ``argument`` and ``environment`` say how it reaches
    the script, where that is not to be found out.
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

    def distribution(self) -> BaseDistribution:
        """The same, in Optuna's words."""
        from optuna.distributions import (
            CategoricalDistribution,
            FloatDistribution,
            IntDistribution,
        )

        if self.kind == "choice":
            return CategoricalDistribution(self.choices)
        if self.kind == "int":
            step = 1 if self.log else int(self.step or 1)
            return IntDistribution(int(self.low), int(self.largest), log=self.log, step=step)
        return FloatDistribution(self.low, self.largest, log=self.log, step=self.step)

    @property
    def candidate_count(self) -> int:
        """How many values a grid tries."""
        if self.kind == "choice":
            return len(self.choices)
        if self.points is not None:
            return self.points
        return math.floor(round((self.largest - self.low) / (self.step or 1), 9)) + 1

    def candidates(self) -> tuple[Value, ...]:
        """All its values, for a grid; of a range without step, ``points`` evenly spread ones."""
        if self.kind == "choice":
            return self.choices
        if self.points is not None:
            return self._spread(self.points)
        step = self.step or 1
        found = (self.low + index * step for index in range(self.candidate_count))
        return tuple(int(one) if self.kind == "int" else round(one, 12) for one in found)

    def _spread(self, count: int) -> tuple[Value, ...]:
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
    """Parameters in an order in which every condition speaks of an earlier one."""

    parameters: tuple[SearchParameter, ...]

    def __getitem__(self, name: str) -> SearchParameter:
        return next(one for one in self.parameters if one.name == name)

    def __contains__(self, name: str) -> bool:
        return any(one.name == name for one in self.parameters)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.parameters)

    def as_grid(self) -> Space:
        """The same space with every range replaced by the values a grid tries."""
        return Space(
            tuple(
                replace(one, kind="choice", choices=one.candidates(), step=None, log=False)
                for one in self.parameters
            )
        )

    def combinations(self) -> Iterator[tuple[tuple[str, Value], ...]]:
        """Every point of a space of choices; conditional parameters stand where they exist."""

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
        """How many combinations there are, counted up to ``most`` + 1."""
        return sum(1 for _ in itertools.islice(self.combinations(), most + 1))


def ordered(parameters: Sequence[SearchParameter]) -> tuple[SearchParameter, ...] | None:
    """The parameters with every condition's parameter before it; None if they go in a circle."""
    known = {one.name for one in parameters}
    waiting, placed = list(parameters), list[SearchParameter]()
    while waiting:
        done = {one.name for one in placed}
        ready = [
            one
            for one in waiting
            if all(each.name in done or each.name not in known for each in one.conditions)
        ]
        if not ready:
            return None
        placed.extend(ready)
        waiting = [one for one in waiting if one not in ready]
    return tuple(placed)


def _same(one: Value, other: Value) -> bool:
    """Equal, and not a boolean that equals a number."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)
