"""Watchpoints, made ready to be asked: which tensors, when, and what."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Final, Literal, Protocol

from sonde.core.selection import OpPattern
from sonde.core.statistics import Statistics
from sonde.watch.conditions import (
    Condition,
    Evidence,
    Judgement,
    Needs,
    Target,
    join,
    parse_condition,
)
from sonde.watch.conditions.screen import Tests

Level = Literal["initial", "step", "op", "overflow"]
"""When it is judged: before the first step; of weights and gradients once a step, without looking
at ops; at the op; at ops with NaN or Inf alone, which the native watch finds."""

_OVERFLOWS: Final = ("tensor_overflow", "operator_overflow")
_NON_FINITE: Final = (*_OVERFLOWS, "weight_overflow", "gradient_exploding")
_HELD: Final = ("weight", "gradient")


class ConditionSettings(Protocol):
    """A condition as a user sets it; ``wire.shapes.ConditionSpec`` is one."""

    @property
    def id(self) -> str: ...
    @property
    def parameters(self) -> Mapping[str, float]: ...
    @property
    def expression(self) -> str: ...


class WatchpointSettings(Protocol):
    """A watchpoint as a user sets it; ``wire.shapes.WatchpointSpec`` is one, and says more."""

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


@dataclass(frozen=True, slots=True)
class Pattern:
    """One entry of ``WatchpointSettings.ops``.

    A scope that ends with ``/``; else as ``core.selection.OpPattern``, but that a text with a dot
    is the whole name of a parameter, not a part of it. ``!`` before it: what it names is left out.
    """

    text: str
    op: OpPattern
    leaves_out: bool = False

    @classmethod
    def parse(cls, text: str) -> Pattern:
        named = text.strip().removeprefix("!").strip()
        return cls(named, OpPattern.parse(named), named != text.strip())

    @property
    def is_leaf_name(self) -> bool:
        return "." in self.text and not self.text.startswith("name-regex(")

    def matches(self, name: str, op_type: str, scope: str, *, is_leaf: bool) -> bool:
        if self.text == name:
            return True
        if self.text.endswith("/"):
            return f"{scope}/".startswith(self.text) or name.startswith(self.text)
        if is_leaf and self.is_leaf_name:
            return False
        return self.op.matches(name, op_type, is_leaf=is_leaf)


@dataclass(frozen=True, slots=True, eq=False)
class Watch:
    """Conditions of one watchpoint that are judged together, of the same tensor."""

    spec: WatchpointSettings
    conditions: tuple[Condition, ...]
    patterns: tuple[Pattern, ...]
    level: Level
    needs: Needs
    _answers: dict[str, bool] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The ids of the conditions."""
        return " and ".join(condition.id for condition in self.conditions)

    @property
    def is_about_non_finite(self) -> bool:
        """Whether it asks for NaN and Inf and for nothing else."""
        return all(condition.id in _NON_FINITE for condition in self.conditions)

    @property
    def names_gradients(self) -> bool:
        """Whether gradients that match are judged when they are whole, not as they were when the
        step began: who names nothing is told of the ops that make them."""
        return bool(self.patterns)

    def aims_at(
        self,
        name: str,
        op_type: str,
        scope: str,
        categories: Collection[Target],
        *,
        is_leaf: bool,
    ) -> bool:
        """Whether it is asked of the tensors of this node."""
        known = self._answers.get(name)
        if known is None:
            known = self._answers[name] = all(
                condition.target in categories for condition in self.conditions
            ) and self._is_named(name, op_type, scope, is_leaf=is_leaf)
        return known

    def _is_named(self, name: str, op_type: str, scope: str, *, is_leaf: bool) -> bool:
        """The last pattern that matches decides; where none does, what the first says of others."""
        for pattern in reversed(self.patterns):
            if pattern.matches(name, op_type, scope, is_leaf=is_leaf):
                return not pattern.leaves_out
        return not self.patterns or self.patterns[0].leaves_out

    def names(self, name: str) -> bool:
        """Whether the person named this very op or leaf."""
        return any(each.text == name and not each.leaves_out for each in self.patterns)

    def clears(self, statistics: Statistics) -> bool:
        """Whether these numbers alone show that there is nothing to tell."""
        if len(self.conditions) == 1:
            return self.conditions[0].clears(statistics)
        return any(each.clears(statistics) for each in self.conditions)

    @property
    def screen(self) -> Sequence[Tests] | None:
        """Tests of its conditions, of which one is to be clear; None if statistics of one step
        never show that there is nothing to tell."""
        if self.needs.previous_statistics:
            return None
        return [tests for each in self.conditions if (tests := each.screen) is not None] or None

    def judge(self, evidence: Evidence) -> Judgement:
        if len(self.conditions) == 1:
            return self.conditions[0].judge(evidence)
        return join([each.judge(evidence) for each in self.conditions], "all")


def make_watches(
    specs: Sequence[WatchpointSettings], rank: int, held_names: Collection[str]
) -> tuple[Watch, ...]:
    """The watches of the enabled watchpoints of this rank; SondeError for one that is wrong.

    ``held_names`` are those of parameters and gradients, which need no look at ops.
    """
    return tuple(
        watch
        for spec in specs
        if spec.enabled and (not spec.ranks or rank in spec.ranks)
        for watch in _watches(spec, held_names)
    )


def _watches(spec: WatchpointSettings, held_names: Collection[str]) -> list[Watch]:
    conditions = [
        parse_condition(each.id, each.parameters, each.expression) for each in spec.conditions
    ]
    patterns = tuple(Pattern.parse(text) for text in spec.ops)
    groups = [(each,) for each in conditions] if spec.join == "any" else [tuple(conditions)]
    return [
        Watch(
            spec,
            group,
            patterns,
            _level(group, patterns, held_names),
            reduce(or_, (condition.needs for condition in group)),
        )
        for group in groups
        if group
    ]


def _level(
    group: tuple[Condition, ...], patterns: tuple[Pattern, ...], held_names: Collection[str]
) -> Level:
    if any(condition.needs.initial_only for condition in group):
        return "initial"
    if any(condition.target in _HELD for condition in group):
        return "step"
    names_some = bool(patterns) and not patterns[0].leaves_out
    if names_some and all(each.leaves_out or each.text in held_names for each in patterns):
        return "step"
    if len(group) == 1 and group[0].id in _OVERFLOWS:
        return "overflow"
    return "op"
