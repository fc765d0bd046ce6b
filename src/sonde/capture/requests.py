"""Requests: which steps and ops a sink wants."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sonde.core.graph import Graph, OpNode
from sonde.core.selection import OpPattern, Selection, StepSet


@dataclass(slots=True)
class SelectionRequest:
    """Requests the ops of a Selection; records which of its patterns never matched an op."""

    selection: Selection
    _matched: set[str] = field(init=False, default_factory=set)

    @property
    def steps(self) -> StepSet:
        return self.selection.steps

    def wants_every_op(self) -> bool | None:
        return True if self.selection.ops is None else None

    def wants_op(self, node: OpNode) -> bool:
        patterns = self.selection.ops
        if patterns is None:
            return True
        found = False
        for pattern in patterns:
            if pattern.matches(node.name, node.type, is_leaf=node.kind != "op"):
                self._matched.add(pattern.text)
                found = True
        return found

    def unmatched(self) -> tuple[OpPattern, ...]:
        return tuple(
            pattern for pattern in self.selection.ops or () if pattern.text not in self._matched
        )


@dataclass(slots=True)
class ToggledRequest:
    """Ops switched on and off while the training runs; the last rule that covers an op decides.

    A rule is a predicate and whether it switches on. Without a rule no op is wanted.
    """

    steps: StepSet
    rules: list[tuple[Callable[[OpNode], bool], bool]] = field(default_factory=list)

    def wants_every_op(self) -> bool | None:
        return None if self.rules else False

    def wants_op(self, node: OpNode) -> bool:
        for covers, enabled in reversed(self.rules):
            if covers(node):
                return enabled
        return False


def nearest_names(pattern: OpPattern, graphs: Sequence[Graph], most: int = 3) -> list[str]:
    """Names in ``graphs`` that the user may have meant by a pattern that matched no op."""
    names = list(dict.fromkeys(node.name for graph in graphs for node in graph))
    types = list(dict.fromkeys(node.type for graph in graphs for node in graph))
    text = pattern.text.removeprefix("name-regex(").removesuffix(")")
    pool = names if pattern.is_exact or pattern.text != text else types
    return difflib.get_close_matches(text, pool, n=most, cutoff=0.4)
