"""Requests: which steps and ops a sink wants."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from functools import partial

from sonde.core.graph import Graph, OpNode
from sonde.core.operators.patterns import NamedOp, OpPattern
from sonde.core.operators.suggestions import suggestion
from sonde.core.selection import Selection, StepSet
from sonde.core.sink import Sink, StepEnd, TensorView
from sonde.core.text.problem_line import ProblemLine
from sonde.core.text.terminal_text import quoted

Covers = Callable[[OpNode], bool]
"""Whether an op is one that a pattern names."""


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

    def unmatched(self) -> list[tuple[OpPattern, Covers]]:
        """The patterns that have matched no op so far."""
        return [(each, partial(_matches, each)) for each in self._unmatched]

    def wanted_in(self, graph: Graph) -> Iterable[OpNode]:
        """The ops, parameters and inputs of a graph that are wanted."""
        return filter(self.selection.wants_op, graph)


@dataclass(slots=True, eq=False)
class Switch:
    """Switches ops on or off, from the time at which it was added.

    ``pattern`` has the name of what it covers, for messages. ``has_matched``: it has covered an op.
    """

    pattern: OpPattern
    covers: Covers
    enabled: bool
    has_matched: bool = False


@dataclass(slots=True)
class ToggledRequest:
    """Ops switched on and off while the training runs; the last switch that covers an op decides.

    Without a switch no op is wanted.
    """

    steps: StepSet
    _switches: dict[Hashable, Switch] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)

    def add(self, key: Hashable, switch: Switch) -> None:
        """Add a switch. ``key`` identifies what it covers: an earlier switch of the same ops cannot
        decide any more and is dropped, so that switching in every step does not slow it down."""
        earlier = self._switches.pop(key, None)
        switch.has_matched |= earlier is not None and earlier.has_matched
        self._switches[key] = switch

    @property
    def has_switches(self) -> bool:
        return bool(self._switches)

    def wants_every_op(self) -> bool | None:
        return None if self._switches else False

    def wants_op(self, node: OpNode) -> bool:
        decision = False
        for switch in self._switches.values():
            if switch.covers(node):
                switch.has_matched = True
                decision = switch.enabled
        if decision:
            self._names.add(node.name)
        return decision

    def unmatched(self) -> list[tuple[OpPattern, Covers]]:
        """The patterns of switches that have covered no op so far."""
        switches = self._switches.values()
        return [(each.pattern, each.covers) for each in switches if not each.has_matched]

    def wanted_in(self, graph: Graph) -> Iterable[OpNode]:
        """The ops, parameters and inputs of a graph that have been wanted."""
        return (node for node in graph if node.name in self._names)


class UnmatchedPatterns(Sink):
    """Reports, at the end of a step, patterns of ``request`` that match no op; each once."""

    def __init__(
        self, request: SelectionRequest | ToggledRequest, report: Callable[[str], None]
    ) -> None:
        self._request = request
        self._report = report
        self._reported: set[str] = set()

    def has(self, view: TensorView) -> bool:
        return True

    def end_step(self, end: StepEnd) -> None:
        for pattern, covers in self._request.unmatched():
            # A switch may have been added after its op ran: the graph has all ops of the step.
            if pattern.text in self._reported or any(map(covers, end.graph)):
                continue
            self._reported.add(pattern.text)
            hint = suggestion(pattern, map(named, end.graph))
            text = f"sonde: {quoted(pattern.text)} matched no op of step {end.step}{hint}"
            self._report(ProblemLine(text, slug="op-unmatched"))


def named(node: OpNode) -> NamedOp:
    return NamedOp(node.name, node.type, node.scope, node.kind != "op")


def _matches(pattern: OpPattern, node: OpNode) -> bool:
    return pattern.matches(*named(node))
