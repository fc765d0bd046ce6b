"""Where NaN and Inf begin, which ops only pass them on, and whether they are a fault.

``docs/origins.md`` states the rules. This is their only implementation: the live debugger, overflow
dumps, the check of a paused training and the check of a dump all use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol
from weakref import WeakKeyDictionary

from sonde.core.graph import GRADIENTS, Source
from sonde.watch.observation import Observation, ObservedTensor
from sonde.watch.op_types import (
    FILLING,
    LOSS_READERS,
    ORDERING,
    SCALER_CHECK,
    infinite_argument,
    is_in_place,
)

OriginKind = Literal["op", "leaf", "outside"]
_WITHOUT_INFINITY = ("bool", "int", "uint")
_OUTERMOST_BACKWARD = f"{GRADIENTS}Default"


@dataclass(slots=True, eq=False)
class Origin:
    """Where non-finite values began; ``number`` counts origins in order of time.

    ``kind``: the op ``op`` made them of finite ones; they came in with the leaf ``op``; or code
    that is not an op wrote them into the memory that ``op`` had filled. ``asked`` is the argument
    that told the op to make them (``value=-inf``). ``source`` is the op's line, or the line that
    first used the leaf or the memory. ``is_unexpected``: nothing asked for them, so that they are
    listed at once; at the end of the step they are not any more unless they are a fault.
    ``is_fault``: they reached the loss, an update of weights, or became NaN.
    """

    number: int
    kind: OriginKind
    step: int
    op: str
    type: str
    source: Source | None
    asked: str | None = None
    is_unexpected: bool = False
    is_fault: bool = False

    @property
    def place(self) -> str:
        """``Default/log-op0 at train.py:12``."""
        return f"{self.op} at {self.source}" if self.source is not None else self.op

    @property
    def is_listed(self) -> bool:
        """Whether its values are hits as far as is known now."""
        return self.is_fault or self.is_unexpected


@dataclass(frozen=True, slots=True, eq=False)
class Traced:
    """An op with non-finite values and where they come from.

    ``is_producer``: from the op itself. ``bad_outputs`` are the slots of its outputs with NaN or
    Inf.
    """

    origin: Origin
    is_producer: bool
    bad_outputs: tuple[int, ...]


class StepNode(Protocol):
    """What is needed of a node to see how a step ended; of the core's and of the wire's graphs."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def phase(self) -> str: ...
    @property
    def inputs(self) -> Sequence[Any]: ...
    @property
    def outputs(self) -> Sequence[Any]: ...


class OriginTracker:
    """Follows non-finite values through the ops of a run, given in order. Not thread-safe.

    ``count`` says how many elements of a tensor are not finite, for callers that may know already.
    """

    def __init__(
        self, count: Callable[[Any], int] = lambda tensor: int(tensor.non_finite())
    ) -> None:
        self._count = count
        self._counts: dict[object, int] = {}
        # The origin of contents and of ops, in this step; of memory, as long as that lives.
        self._by_contents: dict[object, Origin] = {}
        self._by_op: dict[tuple[str, int], Origin] = {}
        self._by_memory: WeakKeyDictionary[Any, Origin] = WeakKeyDictionary()
        self._traced: dict[str, Traced] = {}
        # By op, in this step: the op its non-finite values came from.
        self._givers: dict[str, str] = {}
        self._unused_leaves: list[tuple[Origin, str]] = []
        # What unexpected origins of the forward pass read, in this step.
        self._read: dict[tuple[str | None, int], Origin] = {}
        # Origins whose values went into those of another, which stands for both from there on.
        self._joined: list[tuple[Origin, Origin]] = []
        self._step = -1
        # Places whose non-finite values were no fault in an earlier step.
        self._harmless: set[tuple[object, ...]] = set()
        self._origins = 0

    def begin_step(self) -> None:
        self._counts.clear()
        self._by_contents.clear()
        self._by_op.clear()
        self._traced.clear()
        self._givers.clear()
        self._unused_leaves.clear()
        self._read.clear()
        self._joined.clear()

    def look(self, call: Observation) -> Traced | None:
        """Trace the non-finite values of ``call``; None if all its values are finite."""
        bad_outputs = [view for view in call.outputs if self._is_bad(view)]
        if not bad_outputs and call.node.kind != "op":
            return None
        bad_inputs = [view for view in call.inputs if self._is_bad(view)]
        if not bad_outputs and not bad_inputs:
            return None
        bad_inputs += [view for view in call.inputs if self._is_bad_underneath(call, view)]
        self._step = call.step
        given = {view.slot: self._origin_of(call, view) for view in bad_inputs}
        origin, is_producer = self._find_origin(call, bad_inputs, given, bad_outputs)
        for each in self._at_fault(call, origin, bad_inputs, given, bad_outputs):
            each.is_fault = True
        self._remember(call, origin, given, bad_outputs)
        self._name_user(call)
        if call.node.kind != "op":
            self._unused_leaves.append((origin, call.node.name))
        found = Traced(origin, is_producer, tuple(view.slot for view in bad_outputs))
        self._traced[call.node.name] = found
        return found

    def traced(self, op: str) -> Traced | None:
        """What ``look`` found of an op of this step."""
        return self._traced.get(op)

    def chain(self, op: str) -> tuple[str, ...]:
        """The ops of this step through which the values came to ``op``, which is the last."""
        found = [op]
        while (giver := self._givers.get(found[-1])) is not None and giver not in found:
            found.append(giver)
        found.reverse()
        return tuple(found)

    def origin_in(self, memory: object) -> Origin | None:
        """The origin of the values that were last written into this memory and not finite."""
        return None if memory is None else self._by_memory.get(memory)

    # ---------------------------------------------------------------- what is bad

    def _is_bad(self, view: ObservedTensor) -> bool:
        if not view.is_filled:
            return False
        token = view.values_token
        if token is not None:
            known = self._counts.get(token)
            if known is not None:
                return known > 0
        count = self._count(view)
        if token is not None:
            self._counts[token] = count
        return count > 0

    def _is_bad_underneath(self, call: Observation, view: ObservedTensor) -> bool:
        """Whether memory that was filled in part holds non-finite values an op wrote there.

        The input of an in-place op is a copy, with memory of its own: there the edge tells.
        """
        if view.is_filled:
            return False
        edge = call.node.inputs[view.slot] if view.slot < len(call.node.inputs) else None
        is_known = edge is not None and (edge.producer, edge.slot) in self._by_op
        return (is_known or self.origin_in(view.memory) is not None) and view.non_finite() > 0

    # ------------------------------------------------------- where they come from

    def _find_origin(
        self,
        call: Observation,
        bad_inputs: Sequence[ObservedTensor],
        given: dict[int, Origin],
        bad_outputs: Sequence[ObservedTensor],
    ) -> tuple[Origin, bool]:
        """The origin of the call's values, and whether that is the call itself."""
        node = call.node
        if bad_inputs:
            is_nan = any(view.has_nan() for view in bad_outputs)
            view = min(bad_inputs, key=lambda each: _rank(each, given[each.slot], is_nan))
            giver = _producer(call, view.slot)
            if giver is not None and bad_outputs:
                self._givers.setdefault(node.name, giver)
            origin = given[view.slot]
            if bad_outputs:
                self._joined += ((each, origin) for each in given.values() if each is not origin)
            return origin, False
        if node.kind == "op":
            known = self._origin_in_forward(call) or self._origin_unseen(call)
            if known is not None:
                return known, False
            asked = infinite_argument(call.attributes)
            made = self._new("op", call, node.name, bad_outputs, asked=asked)
            if node.phase == "forward" and asked is None:
                self._read.update(
                    ((each.producer, each.slot), made)
                    for each in node.inputs
                    if each.producer is not None
                )
            return made, True
        for view in bad_outputs:
            earlier = self.origin_in(view.memory)
            if earlier is not None:
                # Written by an op of an earlier step, or the same leaf again.
                return earlier, earlier.kind == "leaf" and earlier.op == node.name
        return self._new("leaf", call, node.name, bad_outputs), True

    def _origin_in_forward(self, call: Observation) -> Origin | None:
        """The op of the forward pass that overflowed with what this op of the backward pass reads:
        where ``log(0)`` is -inf its gradient is 1/0, though no value went from one to the other."""
        if call.node.phase != "backward":
            return None
        read = (self._read.get((each.producer, each.slot)) for each in call.node.inputs)
        found = [each for each in read if each is not None]
        # The gradient of an op has the op's own line. Where torch does not tell which op a gradient
        # belongs to (in-place ops on views), it is in the outermost scope.
        if call.node.scope == _OUTERMOST_BACKWARD:
            return found[0] if found else None
        return next((each for each in found if each.source == call.node.source), None)

    def _origin_unseen(self, call: Observation) -> Origin | None:
        """The first unexpected origin of the step, for an op with inputs that were not observed.

        Compiled code does not keep every value: one that it only had in a register may be what
        brought the bad values here. Without an origin so far, the op is one.
        """
        if len(call.inputs) >= len(call.node.inputs):
            return None
        known = [each for each in self._by_op.values() if each.is_listed]
        return min(known, key=lambda each: each.number, default=None)

    def _origin_of(self, call: Observation, view: ObservedTensor) -> Origin:
        edge = call.node.inputs[view.slot] if view.slot < len(call.node.inputs) else None
        producer = None if edge is None else edge.producer
        slot = 0 if edge is None else edge.slot
        token = view.values_token
        for known in (
            None if token is None else self._by_contents.get(token),
            self.origin_in(view.memory),
            None if producer is None else self._by_op.get((producer, slot)),
        ):
            if known is not None:
                return known
        # Finite when an op last wrote to it, or made unseen.
        origin = self._new("outside", call, producer or call.node.name, (view,))
        if view.memory is not None:
            self._by_memory[view.memory] = origin
        if producer is not None:  # Inputs of unknown producers have nothing in common.
            self._by_op[(producer, slot)] = origin
        return origin

    def _new(
        self,
        kind: OriginKind,
        call: Observation,
        op: str,
        bad: Sequence[ObservedTensor],
        *,
        asked: str | None = None,
    ) -> Origin:
        """Unexpected are the values of an op that was not told to make them, NaN that comes in,
        and NaN that an op computes with an infinite number."""
        self._origins += 1
        node = call.node
        origin = Origin(self._origins, kind, call.step, op, node.type, node.source, asked)
        if _line(origin) in self._harmless:
            return origin
        if kind == "op" and asked is None:
            origin.is_unexpected = True
        elif kind != "op" or node.type not in FILLING:
            origin.is_unexpected = any(view.has_nan() for view in bad)
        return origin

    # ---------------------------------------------------------- what is a fault

    def _at_fault(
        self,
        call: Observation,
        origin: Origin,
        bad_inputs: Sequence[ObservedTensor],
        given: dict[int, Origin],
        bad_outputs: Sequence[ObservedTensor],
    ) -> Iterable[Origin]:
        """The origins whose values reach the loss or an update here, or become NaN."""
        node = call.node
        if node.kind != "op" or node.type == ORDERING:
            return ()
        if node.phase == "optimizer":
            return (origin, *given.values())
        if node.phase == "backward":
            return given.values() if _reads_loss(node) else ()
        became_nan = (
            bool(bad_inputs)
            and not any(view.has_nan() for view in bad_inputs)
            and any(view.has_nan() for view in bad_outputs)
        )
        return (origin,) if became_nan else ()

    def end_step(self, nodes: Iterable[StepNode], *, sees_all: bool = True) -> Sequence[Origin]:
        """Decide of every origin that the step met whether it is a fault, and return them.

        ``nodes`` are all that ran in the step. Without ``sees_all`` only some of its ops were
        observed, so that it is not known what came of unexpected values: they count as a fault.
        """
        origins = dict.fromkeys(
            (*self._by_op.values(), *(each.origin for each in self._traced.values()))
        )
        if all(each.is_fault for each in origins):
            return tuple(origins)
        for origin in self._in_results(nodes):
            origin.is_fault = True
        for origin, other in reversed(self._joined):
            origin.is_fault |= origin.is_unexpected and other.is_fault
        for origin in origins:
            if origin.is_unexpected and not sees_all:
                origin.is_fault = True
            if not origin.is_fault:
                self._harmless.add(_line(origin))
                origin.is_unexpected = False
        return tuple(origins)

    def _in_results(self, nodes: Iterable[StepNode]) -> Iterable[Origin]:
        """The origins of results of the step, unless the loss and an update tell what matters.

        Without an update, each value that no op computes with is a result; without a loss, each
        that no op of the forward pass computes with.
        """
        phases: set[str] = set()
        used: dict[str, set[tuple[str | None, int]]] = {"forward": set(), "later": set()}
        backward: set[str] = set()
        for node in nodes:
            phases.add("scaled" if node.type == SCALER_CHECK else node.phase)
            if node.phase == "backward":
                backward.add(node.name)
                if _reads_loss(node):
                    phases.add("loss")
            if any(not each.dtype.startswith(_WITHOUT_INFINITY) for each in node.outputs):
                when = "forward" if node.phase == "forward" else "later"
                used[when] |= {(edge.producer, edge.slot) for edge in node.inputs}
        has_update, has_loss = bool(phases & {"optimizer", "scaled"}), "loss" in phases
        if not phases or (has_loss and has_update):
            return ()

        def is_result(place: tuple[str, int]) -> bool:
            if place in used["forward"] or place[0] not in self._traced:
                return False
            is_last = place not in used["later"]
            return is_last or not (has_loss or place[0] in backward)

        found = [origin for place, origin in self._by_op.items() if is_result(place)]
        return [origin for origin in found if origin.step == self._step]

    # ------------------------------------------------------------------- memory

    def _remember(
        self,
        call: Observation,
        origin: Origin,
        given: dict[int, Origin],
        bad_outputs: Sequence[ObservedTensor],
    ) -> None:
        writes_over = is_in_place(call.node.type) and len(call.outputs) > 1
        for view in bad_outputs:
            own = given.get(view.slot, origin) if writes_over else origin
            if view.values_token is not None:
                self._by_contents[view.values_token] = own
            if view.memory is not None:
                self._by_memory[view.memory] = own
            self._by_op[(call.node.name, view.slot)] = own

    def _name_user(self, call: Observation) -> None:
        """The line that uses a leaf stands for the leaf, which has none of its own."""
        if call.node.kind != "op" or not self._unused_leaves:
            return
        used = {edge.producer for edge in call.node.inputs}
        for origin, name in self._unused_leaves:
            if name in used and origin.kind == "leaf" and origin.source is None:
                origin.source = call.node.source
        self._unused_leaves = [each for each in self._unused_leaves if each[1] not in used]


def _producer(call: Observation, slot: int) -> str | None:
    inputs = call.node.inputs
    return inputs[slot].producer if slot < len(inputs) else None


def _rank(view: ObservedTensor, origin: Origin, is_nan: bool) -> tuple[bool, bool, bool, int]:
    """Of several bad inputs the one that is at fault comes first: a known fault, then what nothing
    asked for, then NaN where the result is NaN, then the earliest."""
    carries_other = is_nan and not view.has_nan()
    return not origin.is_fault, not origin.is_unexpected, carries_other, origin.number


def _line(origin: Origin) -> tuple[object, ...]:
    """What an origin has in common with that of another step: its line, or its name."""
    if origin.kind != "op" or origin.source is None:
        return (origin.kind, origin.op)
    return (origin.type, origin.source)


@dataclass(slots=True)
class OverflowSummary:
    """What a run has shown so far.

    ``fault`` is the first origin that is a fault, ``harmless`` the first that was none;
    ``producers`` and ``carriers`` count ops with non-finite values.
    """

    fault: Origin | None = None
    harmless: Origin | None = None
    producers: int = 0
    carriers: int = 0
    _current: Origin | None = None
    _previous: Origin | None = None

    def begin_step(self) -> None:
        self._previous = self._current
        self._current = None

    def count(self, traced: Traced) -> None:
        if traced.is_producer:
            self.producers += 1
        else:
            self.carriers += 1
        origin = traced.origin
        if origin.is_fault:
            self._found(origin)
        if origin.is_listed:
            self._current = self._current or origin

    def _found(self, origin: Origin) -> None:
        if self.fault is None or origin.number < self.fault.number:
            self.fault = origin

    def end_step(self, touched: Iterable[Origin]) -> None:
        for origin in touched:
            if origin.is_fault:
                self._found(origin)
            elif self.harmless is None:
                self.harmless = origin
        if self._current is not None and not self._current.is_listed:
            self._current = None

    @property
    def latest(self) -> Origin | None:
        """Whose values the running step shows, or the one before, or else any."""
        return self._current or self._previous or self.fault


def _reads_loss(node: StepNode) -> bool:
    """Whether a backward pass begins here; not where checkpointing runs ones_like again."""
    return node.type in LOSS_READERS and not any(
        (each.producer or "").startswith(GRADIENTS) for each in node.inputs
    )
