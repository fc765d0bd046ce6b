"""Requests: which steps and ops a sink wants."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from sonde.core.graph import Graph, OpNode
from sonde.core.operators.patterns import NamedOp, OpPattern
from sonde.core.operators.suggestions import suggestion
from sonde.core.selection import Selection, StepSet
from sonde.core.sink import Sink, StepEnd, TensorView
from sonde.core.text.problem_line import ProblemLine


@dataclass(slots=True)
class SelectionRequest:
    """Requests the ops of a Selection; records which of its patterns never matched an op."""

    selection: Selection
    _unmatched: list[OpPattern] = field(init=False)

    def __post_init__(self) -> None:
        self._unmatched = list(self.selection.ops or ())

    @property
    def steps(self) -> StepSet:
        return self.selection.steps

    def wants_every_op(self) -> bool | None:
        return True if self.selection.ops is None else None

    def wants_op(self, node: OpNode) -> bool:
        if self._unmatched:
            self._unmatched = [each for each in self._unmatched if not _matches(each, node)]
        return self.selection.wants_op(node)

    def unmatched(self) -> tuple[OpPattern, ...]:
        """The patterns that have matched no op so far."""
        return tuple(self._unmatched)

    def ops_in(self, graph: Graph) -> Iterable[str]:
        """The names of the ops of a graph that are wanted."""
        return (node.name for node in graph.ops if self.selection.wants_op(node))


@dataclass(slots=True, eq=False)
class Switch:
    """Switches ops on or off, from the time at which it was added.

    ``pattern`` has the name of what it covers, for messages. ``had_step``: it was there when a step
    began; ``has_matched``: it has covered an op.
    """

    pattern: OpPattern
    covers: Callable[[OpNode], bool]
    enabled: bool
    had_step: bool = False
    has_matched: bool = False


@dataclass(slots=True)
class ToggledRequest:
    """Ops switched on and off while the training runs; the last switch that covers an op decides.

    Without a switch no op is wanted.
    """

    steps: StepSet
    switches: list[Switch] = field(default_factory=list)
    _names: set[str] = field(default_factory=set)

    def wants_every_op(self) -> bool | None:
        return None if self.switches else False

    def wants_op(self, node: OpNode) -> bool:
        decision = False
        for switch in self.switches:
            if switch.covers(node):
                switch.has_matched = True
                decision = switch.enabled
        if decision and node.kind == "op":
            self._names.add(node.name)
        return decision

    def begin_step(self) -> None:
        for switch in self.switches:
            switch.had_step = True

    def unmatched(self) -> tuple[OpPattern, ...]:
        """The patterns of switches that were there for a whole step and covered no op so far."""
        return tuple(
            each.pattern for each in self.switches if each.had_step and not each.has_matched
        )

    def ops_in(self, graph: Graph) -> Iterable[str]:
        """The names of the ops of a graph that have been wanted."""
        return (node.name for node in graph.ops if node.name in self._names)


class UnmatchedPatterns(Sink):
    """Reports, at the end of a step, patterns of ``request`` that match no op; each once."""

    def __init__(
        self, request: SelectionRequest | ToggledRequest, report: Callable[[str], None]
    ) -> None:
        self._request = request
        self._report = report
        self._reported: set[str] = set()

    def begin_step(self, step: int) -> None:
        if isinstance(self._request, ToggledRequest):
            self._request.begin_step()

    def has(self, view: TensorView) -> bool:
        return True

    def end_step(self, end: StepEnd) -> None:
        for pattern in self._request.unmatched():
            if pattern.text not in self._reported:
                self._reported.add(pattern.text)
                hint = suggestion(pattern, map(named, end.graph))
                text = f"sonde: {pattern.text!r} matched no op of step {end.step}{hint}"
                self._report(ProblemLine(text, slug="op-unmatched"))


def named(node: OpNode) -> NamedOp:
    return NamedOp(node.name, node.type, node.scope, node.kind != "op")


def _matches(pattern: OpPattern, node: OpNode) -> bool:
    return pattern.matches(*named(node))
