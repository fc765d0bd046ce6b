"""Watchpoints in the form in which they are evaluated: on which tensors, when, and what."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Final, Literal, NamedTuple, Protocol

from sonde.core.operators.patterns import OpPattern, parse_all, selects
from sonde.core.statistics import Statistics
from sonde.watch.conditions import (
    CATALOGUE,
    Condition,
    Evidence,
    Judgement,
    Needs,
    Target,
    join_all,
    parse_condition,
)
from sonde.watch.conditions.screen import Tests

Level = Literal["initial", "step", "op", "overflow"]
"""When a watch is evaluated: before the first step; once a step, on weights and gradients, without
observing ops; at each op; only at ops with NaN or Inf, which native code finds."""

_OVERFLOWS: Final = ("tensor_overflow", "operator_overflow")
NON_FINITE: Final = (*_OVERFLOWS, "weight_overflow", "gradient_exploding")
"""The conditions that find NaN and Inf and nothing else."""
_PARAMETER_TARGETS: Final = ("weight", "gradient")


class WatchedNode(NamedTuple):
    """A node as far as it matters for which watches apply to it."""

    name: str
    type: str
    scope: str
    categories: Collection[Target]
    is_leaf: bool


class ConditionSettings(Protocol):
    """A condition as a user sets it; ``wire.shapes.ConditionSpec`` implements it."""

    @property
    def id(self) -> str: ...
    @property
    def parameters(self) -> Mapping[str, float]: ...
    @property
    def expression(self) -> str: ...


class WatchpointSettings(Protocol):
    """A watchpoint as a user sets it; see ``wire.shapes.WatchpointSpec``, which implements it."""

    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def conditions(self) -> Sequence[ConditionSettings]: ...
    @property
    def ops(self) -> Sequence[str]: ...
    @property
    def join(self) -> Literal["any", "all"]: ...
    @property
    def enabled(self) -> bool: ...
    @property
    def break_after(self) -> int: ...
    @property
    def ranks(self) -> Sequence[int]: ...


@dataclass(frozen=True, slots=True, eq=False)
class Watch:
    """Conditions of one watchpoint that are evaluated together, on the same tensor."""

    spec: WatchpointSettings
    conditions: tuple[Condition, ...]
    patterns: tuple[OpPattern, ...]
    level: Level
    needs: Needs
    _applies: dict[str, bool] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The ids of the conditions."""
        return " and ".join(condition.id for condition in self.conditions)

    @property
    def advice(self) -> str:
        known = (CATALOGUE.get(condition.id) for condition in self.conditions)
        return " ".join(kind.advice for kind in known if kind is not None)

    @property
    def is_about_non_finite(self) -> bool:
        """Whether it finds NaN and Inf and nothing else."""
        return all(condition.id in NON_FINITE for condition in self.conditions)

    @property
    def steps_in_a_row(self) -> int:
        """In how many steps in a row a tensor must meet it before that is a hit."""
        return int(max(self._setting("steps_in_a_row"), 1))

    @property
    def is_about_updates(self) -> bool:
        """Whether it says nothing of a weight that an optimizer did not have to change: it is about
        the change of a step, or about a state that must last while the training goes on."""
        return self.needs.at_step_end or (self.level == "step" and self.steps_in_a_row > 1)

    @property
    def from_start(self) -> bool:
        """Whether a tensor that did not meet it at first never does: it has converged or rests."""
        return self._setting("from_start") > 0

    @property
    def floats_only(self) -> bool:
        """Whether only floating-point tensors count."""
        return self._setting("floats_only") > 0

    def _setting(self, name: str) -> float:
        ids = {each.id for each in self.conditions}
        given = [each.parameters for each in self.spec.conditions if each.id in ids]
        return max((each.get(name, 0.0) for each in given), default=0.0)

    @property
    def names_gradients(self) -> bool:
        """Whether matching gradients are evaluated when the optimizer is about to use them, not at
        the start of the step. Without patterns, the ops that compute gradients are evaluated."""
        return bool(self.patterns)

    def applies_to(self, node: WatchedNode) -> bool:
        """Whether it is evaluated on the tensors of ``node``."""
        # Called once for each op and watch while a graph is learned: most differ in the category.
        for condition in self.conditions:
            if condition.target not in node.categories:
                return False
        if not self.patterns:
            return True
        known = self._applies.get(node.name)
        if known is None:
            known = self._applies[node.name] = self._matches(node)
        return known

    def _matches(self, node: WatchedNode) -> bool:
        return selects(self.patterns, node.name, node.type, node.scope, is_leaf=node.is_leaf)

    def names(self, name: str) -> bool:
        """Whether the user gave the full name of this op or leaf."""
        return any(each.text == name and not each.excludes for each in self.patterns)

    def clears(self, statistics: Statistics) -> bool:
        """Whether ``statistics`` alone show that ``judge`` returns "clear"."""
        if len(self.conditions) == 1:
            return self.conditions[0].clears(statistics)
        return any(each.clears(statistics) for each in self.conditions)

    @property
    def screen(self) -> Sequence[Tests] | None:
        """The tests of its conditions, one of which must clear the tensor; None if the statistics
        of one step are never enough."""
        if self.needs.previous_statistics:
            return None
        return [tests for each in self.conditions if (tests := each.screen) is not None] or None

    def judge(self, evidence: Evidence) -> Judgement:
        if len(self.conditions) == 1:
            return self.conditions[0].judge(evidence)
        return join_all([each.judge(evidence) for each in self.conditions])


def make_watches(
    specs: Sequence[WatchpointSettings], rank: int, parameter_names: Collection[str]
) -> tuple[Watch, ...]:
    """The watches of the watchpoints that are enabled on this rank; SondeError if one is invalid.

    ``parameter_names``: parameters and gradients, which are evaluated without observing ops.
    """
    return tuple(
        watch
        for spec in specs
        if spec.enabled and (not spec.ranks or rank in spec.ranks)
        for watch in _watches(spec, parameter_names)
    )


def _watches(spec: WatchpointSettings, parameter_names: Collection[str]) -> list[Watch]:
    conditions = [
        parse_condition(each.id, each.parameters, each.expression) for each in spec.conditions
    ]
    patterns = parse_all(spec.ops)
    groups = [(each,) for each in conditions] if spec.join == "any" else [tuple(conditions)]
    return [
        Watch(
            spec,
            group,
            patterns,
            _level(group, patterns, parameter_names),
            reduce(or_, (condition.needs for condition in group)),
        )
        for group in groups
        if group
    ]


def _level(
    group: tuple[Condition, ...], patterns: tuple[OpPattern, ...], parameter_names: Collection[str]
) -> Level:
    if any(condition.needs.initial_only for condition in group):
        return "initial"
    if any(condition.target in _PARAMETER_TARGETS for condition in group):
        return "step"
    includes_only = bool(patterns) and not patterns[0].excludes
    if includes_only and all(each.excludes or each.text in parameter_names for each in patterns):
        return "step"
    if len(group) == 1 and group[0].id in _OVERFLOWS:
        return "overflow"
    return "op"
