"""Tracks NaN and Inf from op to op: their origins, and whether they are a fault.

``docs/origins.md`` states the rules. This is their only implementation: the live debugger, overflow
dumps, the check at a pause and the check of a dump all use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sonde.core.graph import GRADIENTS, Phase, Source
from sonde.core.observation import Observation, ObservedTensor
from sonde.core.weak_table import WeakTable
from sonde.watch.explanations.made_values import MadeValues, made_values
from sonde.watch.explanations.op_facts import OpFacts
from sonde.watch.faults import StepNode, find_fault, find_results, find_scales
from sonde.watch.op_types import (
    FILLING,
    SCALER_CHECK,
    infinite_argument,
    is_in_place,
    overwritten_inputs,
)

OriginKind = Literal["op", "leaf", "outside"]
_OUTERMOST_BACKWARD = f"{GRADIENTS}Default"


@dataclass(slots=True, eq=False)
class Origin:
    """The origin of non-finite values; ``number`` counts origins in the order of time.

    ``kind``: the op ``op`` produced them from finite ones; the leaf ``op`` had them when the step
    first read it; or code that is not an op wrote them into the memory that ``op`` had filled.
    ``argument`` is the argument that they come from (``value=-inf``). ``source`` is the op's line,
    or the line that first used the leaf or the memory. ``is_unexpected``: they come from no
    argument, so they are listed at once; False at the end of the step if they are no fault.
    ``is_fault``: they reached the loss or an update of weights, or became NaN. ``made``: what the
    values of the op show, if the tracker can read them; ``turned``: the same of the op that turned
    its infinities into NaN. ``is_checked``: a loss scaler found them, and skips the update.
    """

    number: int
    kind: OriginKind
    step: int
    op: str
    type: str
    source: Source | None
    argument: str | None = None
    is_unexpected: bool = False
    is_checked: bool = False
    is_fault: bool = False
    phase: Phase = "forward"
    made: MadeValues | None = None
    turned: MadeValues | None = None

    @property
    def place(self) -> str:
        """``Default/log-op0 at train.py:12``."""
        return f"{self.op} at {self.source}" if self.source is not None else self.op

    @property
    def is_listed(self) -> bool:
        """Whether its values are hits, as far as is known now."""
        return self.is_fault or self.is_unexpected


@dataclass(frozen=True, slots=True, eq=False)
class Traced:
    """The origin of the non-finite values of an op.

    ``is_producer``: the op itself produced them. ``bad_outputs``: the slots of its outputs with NaN
    or Inf.
    """

    origin: Origin
    is_producer: bool
    bad_outputs: tuple[int, ...]


class OriginTracker:
    """Tracks non-finite values through the ops of a run, in execution order. Not thread-safe.

    ``count`` counts the non-finite elements of a tensor; give one if they may be known already.
    ``facts`` returns the values of an op, from which origins are explained; None: they are not.
    """

    def __init__(
        self,
        count: Callable[[Any], int] = lambda tensor: int(tensor.non_finite()),
        facts: Callable[[Any], OpFacts | None] = lambda call: None,
    ) -> None:
        self._count = count
        self._facts = facts
        # Origins by memory, as long as that exists.
        self._by_memory: WeakTable[Any, Origin] = WeakTable()
        # Lines whose non-finite values were no fault in an earlier step.
        self._harmless: set[tuple[object, ...]] = set()
        self._origins = 0
        self._step = -1
        self.begin_step()

    def begin_step(self) -> None:
        """Forget what is known of the ops of the last step."""
        self._counts: dict[object, int] = {}
        self._by_contents: dict[object, Origin] = {}
        self._by_op: dict[tuple[str, int], Origin] = {}
        self._traced: dict[str, Traced] = {}
        # By op: the op that passed its non-finite values on to it.
        self._givers: dict[str, str] = {}
        # Leaves that no op has used yet.
        self._unused_leaves: list[tuple[Origin, str]] = []
        # The line that first uses a leaf, by the leaf's name.
        self.first_uses: dict[str, Source | None] = {}
        # The inputs of unexpected origins of the forward pass.
        self._read: dict[tuple[str | None, int], Origin] = {}
        # The factors of products in the forward pass that are origins.
        self._factors: dict[Origin, set[tuple[str | None, int]]] = {}
        # Such products that are the loss, until it is known whether a loss scaler made them.
        self._scaled: list[Origin] = []
        # Origins whose values were combined with those of another, which represents both since.
        self._joined: list[tuple[Origin, Origin]] = []

    def look(self, call: Observation) -> Traced | None:
        """Trace the non-finite values of ``call``; None if all its values are finite."""
        bad_outputs = [view for view in call.outputs if self._is_bad(view)]
        if not bad_outputs and call.node.kind != "op":
            return None
        overwritten = overwritten_inputs(call.node.type, call.node.attributes)
        inputs = [view for view in call.inputs if view.slot not in overwritten]
        bad_inputs = [view for view in inputs if self._is_bad(view)]
        if not bad_outputs and not bad_inputs:
            return None
        bad_inputs += [view for view in inputs if self._is_bad_underneath(call, view)]
        self._step = call.step
        given = {view.slot: self._origin_of(call, view) for view in bad_inputs}
        origin, is_producer = self._find_origin(call, bad_inputs, given, bad_outputs)
        fault = find_fault(call, bad_inputs, bad_outputs)
        if call.node.type == SCALER_CHECK:
            for each in given.values():
                each.is_checked = True
        if fault == "nan" and all(each.is_checked for each in given.values()):
            fault = None  # Clipping makes NaN of infinities; the scaler skips the step.
        if fault in ("update", "nan"):
            origin.is_fault = True
        if fault == "nan" and origin.turned is None and not is_producer:
            origin.turned = made_values(call.node, self._facts(call))
        if fault in ("update", "loss"):
            for each in given.values():
                if fault == "loss" and each in self._factors:
                    self._scaled.append(each)
                else:
                    each.is_fault = True
        self._remember(call, origin, given, bad_outputs)
        self._note_uses(call)
        if call.node.kind != "op":
            self._unused_leaves.append((origin, call.node.name))
        found = Traced(origin, is_producer, tuple(view.slot for view in bad_outputs))
        self._traced[call.node.name] = found
        return found

    def traced(self, op: str) -> Traced | None:
        """The result of ``look`` for an op of this step."""
        return self._traced.get(op)

    def chain(self, op: str) -> tuple[str, ...]:
        """The ops of this step that passed the values on, ending with ``op``."""
        found = [op]
        while (giver := self._givers.get(found[-1])) is not None and giver not in found:
            found.append(giver)
        found.reverse()
        return tuple(found)

    def origin_in(self, memory: object) -> Origin | None:
        """The origin of the last non-finite values that were written to this memory."""
        return None if memory is None else self._by_memory.get(memory)

    def is_known_harmless(self, origin: Origin) -> bool:
        """Whether non-finite values of its line were no fault in an earlier step, nor yet now."""
        return not origin.is_listed and _line(origin) in self._harmless

    # -------------------------------------------------------- non-finite tensors

    def _is_bad(self, view: ObservedTensor) -> bool:
        if not view.is_filled:
            return False
        token = view.values_token
        count = None if token is None else self._counts.get(token)
        if count is None:
            count = self._count(view)
            if token is not None:
                self._counts[token] = count
        return count > 0

    def _is_bad_underneath(self, call: Observation, view: ObservedTensor) -> bool:
        """Whether memory that is filled in part has non-finite values that an op wrote.

        The input of an in-place op is a copy, with memory of its own: the edge identifies it.
        """
        if view.is_filled:
            return False
        is_known = _place(call, view) in self._by_op
        return (is_known or self.origin_in(view.memory) is not None) and view.non_finite() > 0

    # ------------------------------------------------------------------ origins

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
            view = min(bad_inputs, key=lambda each: _preference(each, given[each.slot], is_nan))
            giver, _ = _place(call, view)
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
            argument = infinite_argument(call.attributes)
            made = self._new("op", call, node.name, bad_outputs, argument=argument)
            if node.phase == "forward" and argument is None:
                self._read.update(
                    ((each.producer, each.slot), made)
                    for each in node.inputs
                    if each.producer is not None
                )
                if node.type == "mul":
                    self._factors[made] = {(each.producer, each.slot) for each in node.inputs}
            return made, True
        for view in bad_outputs:
            earlier = self.origin_in(view.memory)
            if earlier is not None:
                # Written by an op of an earlier step, or the same leaf as before.
                return earlier, earlier.kind == "leaf" and earlier.op == node.name
        return self._new("leaf", call, node.name, bad_outputs), True

    def _origin_in_forward(self, call: Observation) -> Origin | None:
        """The op of the forward pass that overflowed on an input that this op of the backward pass
        reads: if ``log(0)`` is -inf, its gradient is 1/0, although neither reads the other."""
        if call.node.phase != "backward":
            return None
        read = (self._read.get((each.producer, each.slot)) for each in call.node.inputs)
        found = [each for each in read if each is not None]
        # The gradient of an op has the op's own line. If torch does not know which op a gradient
        # belongs to (in-place ops on views), it is in the outermost scope.
        if call.node.scope == _OUTERMOST_BACKWARD:
            return found[0] if found else None
        return next((each for each in found if each.source == call.node.source), None)

    def _origin_unseen(self, call: Observation) -> Origin | None:
        """The first unexpected origin of the step, for an op with inputs that were not observed.

        Compiled code does not store every value: the bad values may come from one that it had only
        in a register. Without an origin so far, the op itself is one.
        """
        if len(call.inputs) >= len(call.node.inputs):
            return None
        known = [each for each in self._by_op.values() if each.is_listed]
        return min(known, key=lambda each: each.number, default=None)

    def _origin_of(self, call: Observation, view: ObservedTensor) -> Origin:
        producer, slot = _place(call, view)
        token = view.values_token
        for known in (
            None if token is None else self._by_contents.get(token),
            self.origin_in(view.memory),
            None if producer is None else self._by_op.get((producer, slot)),
        ):
            if known is not None:
                return known
        # Finite when an op last wrote to it, or computed by an op that was not observed.
        origin = self._new("outside", call, producer or call.node.name, (view,))
        if view.memory is not None:
            self._by_memory[view.memory] = origin
        if producer is not None:  # Inputs of unknown producers are not related.
            self._by_op[(producer, slot)] = origin
        return origin

    def _new(
        self,
        kind: OriginKind,
        call: Observation,
        op: str,
        bad: Sequence[ObservedTensor],
        *,
        argument: str | None = None,
    ) -> Origin:
        """A new origin. Unexpected are the values of an op without an argument that asks for them,
        NaN that comes in, and NaN that an op computes from an infinite argument."""
        self._origins += 1
        node = call.node
        origin = Origin(self._origins, kind, call.step, op, node.type, node.source, argument)
        origin.phase = node.phase
        if _line(origin) in self._harmless:
            return origin
        if kind == "op" and argument is None:
            origin.is_unexpected = True
        elif kind != "op" or node.type not in FILLING:
            origin.is_unexpected = any(view.has_nan() for view in bad)
        if kind != "outside" and origin.is_unexpected:
            origin.made = made_values(node, self._facts(call))
        return origin

    # ------------------------------------------------------------------- faults

    def end_step(self, nodes: Iterable[StepNode], *, sees_all: bool = True) -> Sequence[Origin]:
        """Decide for every origin of the step whether it is a fault, and return the origins.

        ``nodes`` are all nodes of the step. Without ``sees_all``, only some of its ops were
        observed; unexpected values count as a fault then, because their effect is not known.
        """
        origins = dict.fromkeys(
            (*self._by_op.values(), *(each.origin for each in self._traced.values()))
        )
        if all(each.is_fault for each in origins):
            return tuple(origins)
        nodes = tuple(nodes)
        scales = find_scales(nodes) if self._scaled else set()
        for origin in self._scaled:
            origin.is_fault |= not self._factors[origin] & scales
        is_result = find_results(nodes)
        for place, origin in self._by_op.items():
            if origin.step == self._step and place[0] in self._traced and is_result(place):
                origin.is_fault = True
        for origin, other in reversed(self._joined):
            origin.is_fault |= origin.is_unexpected and other.is_fault
        for origin in origins:
            if origin.is_unexpected and not sees_all:
                origin.is_fault = True
            if origin.is_fault:
                self._harmless.discard(_line(origin))
            else:
                self._harmless.add(_line(origin))
                origin.is_unexpected = False
        return tuple(origins)

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

    def _note_uses(self, call: Observation) -> None:
        """Note the line that first uses a leaf, which has no line of its own."""
        if call.node.kind != "op" or not self._unused_leaves:
            return
        used = {edge.producer for edge in call.node.inputs}
        for origin, name in self._unused_leaves:
            if name in used:
                self.first_uses.setdefault(name, call.node.source)
                if origin.kind == "leaf" and origin.source is None:
                    origin.source = call.node.source
        self._unused_leaves = [each for each in self._unused_leaves if each[1] not in used]


def _place(call: Observation, view: ObservedTensor) -> tuple[str | None, int]:
    """The op, if that is known, and the output that an input of ``call`` comes from."""
    inputs = call.node.inputs
    if view.slot >= len(inputs):
        return None, 0
    return inputs[view.slot].producer, inputs[view.slot].slot


def _preference(view: ObservedTensor, origin: Origin, is_nan: bool) -> tuple[bool, bool, bool, int]:
    """The order of preference of several bad inputs: a known fault, unexpected values, NaN if the
    result is NaN, the earliest."""
    carries_other = is_nan and not view.has_nan()
    return not origin.is_fault, not origin.is_unexpected, carries_other, origin.number


def _line(origin: Origin) -> tuple[object, ...]:
    """What identifies an origin in several steps: its line, or its name."""
    if origin.kind != "op" or origin.source is None:
        return (origin.kind, origin.op)
    return (origin.type, origin.source)
