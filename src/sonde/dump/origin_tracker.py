"""Follows non-finite values through a step: which op made them, which only passed them on.

A *producer* has finite inputs and a non-finite output (a leaf that comes in non-finite counts as
one: it has no inputs at all). A *carrier* has non-finite inputs. Infinity counts as much as NaN:
what makes the first inf is the origin of the nan it becomes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from sonde.core.graph import Source
from sonde.core.sink import OpCall, TensorView
from sonde.dump.overflow_entry import FILLING, has_nan, infinite_argument, producer_of
from sonde.dump.overflow_origin import Origin, OriginKind


@dataclass(frozen=True, slots=True, eq=False)
class Spoiled:
    """An op call with non-finite values, where they come from, and its outputs that have some.

    ``is_producer``: from the call itself.
    """

    origin: Origin
    is_producer: bool
    bad_outputs: tuple[TensorView, ...]


class OriginTracker:
    """Judges the calls of a run in order. Used from the training thread.

    ``count`` says how many elements of a view are not finite, for whoever knows that already.
    """

    def __init__(self, count: Callable[[TensorView], int] = lambda view: view.non_finite()) -> None:
        self._count = count
        self._counts: dict[object, int] = {}
        # Who spoiled what: contents, in this step; ops, in this step; memory, as long as it lives.
        self._by_contents: dict[object, Origin] = {}
        self._by_op: dict[str, Origin] = {}
        self._by_memory: WeakKeyDictionary[Any, Origin] = WeakKeyDictionary()
        # By op, in this step: the op its non-finite values came from.
        self._givers: dict[str, str] = {}
        self._unused_leaves: list[tuple[Origin, str]] = []
        # Lines of the forward pass where infinities did no harm: recomputed in backward
        # (activation checkpointing) they do none either.
        self._harmless: set[tuple[str, Source | None]] = set()
        self._origins = 0

    def begin_step(self) -> None:
        self._counts.clear()
        self._by_contents.clear()
        self._by_op.clear()
        self._givers.clear()
        self._unused_leaves.clear()

    def look(self, call: OpCall) -> Spoiled | None:
        """What is wrong with ``call``; None if all its values are finite."""
        bad_outputs = [view for view in call.outputs if self._is_bad(view)]
        if not bad_outputs and call.node.kind != "op":
            return None
        bad_inputs = [view for view in call.inputs if self._is_bad(view)]
        if not bad_outputs and not bad_inputs:
            return None
        bad_inputs += [view for view in call.inputs if self._is_bad_underneath(view)]
        origin, is_producer = self._find_origin(call, bad_inputs, bad_outputs)
        if not origin.is_guilty:
            origin.is_guilty = self._does_harm(call, origin, bad_outputs, is_producer)
        self._remember(call, origin, bad_outputs)
        self._name_user(call)
        if call.node.kind != "op":
            self._unused_leaves.append((origin, call.node.name))
        return Spoiled(origin, is_producer, tuple(bad_outputs))

    def chain(self, op: str) -> tuple[str, ...]:
        """The ops of this step through which the values came to ``op``, which is the last."""
        found = [op]
        while (giver := self._givers.get(found[-1])) is not None and giver not in found:
            found.append(giver)
        found.reverse()
        return tuple(found)

    # ---------------------------------------------------------------- what is bad

    def _is_bad(self, view: TensorView) -> bool:
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

    def _is_bad_underneath(self, view: TensorView) -> bool:
        """Whether memory that was filled in part only holds non-finite values an op put there."""
        return not view.is_filled and self.spoiler(view) is not None and view.non_finite() > 0

    # ---------------------------------------------------------------- who made it

    def _find_origin(
        self, call: OpCall, bad_inputs: Sequence[TensorView], bad_outputs: Sequence[TensorView]
    ) -> tuple[Origin, bool]:
        """The origin of the call's values, and whether that is the call itself."""
        node = call.node
        if bad_inputs:
            found = [(self._origin_of(call, view), view) for view in bad_inputs]
            # What did harm before what did none, then the earliest.
            origin, view = min(found, key=lambda each: (not each[0].is_guilty, each[0].number))
            giver = producer_of(node, view.slot)
            if giver is not None and bad_outputs:
                self._givers.setdefault(node.name, giver)
            return origin, False
        if node.kind == "op":
            unseen = self._origin_unseen(call)
            if unseen is not None:
                return unseen, False
            return self._new("op", call, node.name, asked=infinite_argument(call)), True
        for view in bad_outputs:
            earlier = self.spoiler(view)
            if earlier is not None:
                # Spoiled by an op of an earlier step, or the same leaf again.
                return earlier, earlier.kind == "leaf" and earlier.op == node.name
        return self._new("leaf", call, node.name), True

    def _origin_unseen(self, call: OpCall) -> Origin | None:
        """The first culprit of the step, for an op with inputs that nobody could look at.

        Compiled code does not keep every value: one that it only had in a register may be what
        brought the bad values here. Without a culprit so far, the op is one.
        """
        if len(call.inputs) >= len(call.node.inputs):
            return None
        known = [each for each in self._by_op.values() if each.is_guilty]
        return min(known, key=lambda each: each.number, default=None)

    def _origin_of(self, call: OpCall, view: TensorView) -> Origin:
        producer = producer_of(call.node, view.slot)
        for known in (
            self._by_contents.get(view.values_token),
            self.spoiler(view),
            self._by_op.get(producer or ""),
        ):
            if known is not None:
                return known
        # Finite when an op last wrote to it, or made unseen.
        origin = self._new("outside", call, producer or call.node.name)
        if view.memory is not None:
            self._by_memory[view.memory] = origin
        return origin

    def _new(self, kind: OriginKind, call: OpCall, op: str, *, asked: str | None = None) -> Origin:
        self._origins += 1
        return Origin(self._origins, kind, call.step, op, call.node.source, asked)

    def spoiler(self, view: TensorView) -> Origin | None:
        """Who last put non-finite values into the view's memory."""
        memory = view.memory
        return None if memory is None else self._by_memory.get(memory)

    def _remember(self, call: OpCall, origin: Origin, bad_outputs: Sequence[TensorView]) -> None:
        for view in bad_outputs:
            if view.values_token is not None:
                self._by_contents[view.values_token] = origin
            if view.memory is not None:
                self._by_memory[view.memory] = origin
        if bad_outputs:
            self._by_op[call.node.name] = origin

    def _does_harm(
        self,
        call: OpCall,
        origin: Origin,
        bad_outputs: Sequence[TensorView],
        is_producer: bool,
    ) -> bool:
        """See ``overflow_origin``: whether what was innocent is not any more."""
        node = call.node
        if is_producer and origin.asked is not None and node.type in FILLING:
            return False
        if is_producer and origin.kind == "op" and origin.asked is None:
            return True
        if any(has_nan(view) for view in bad_outputs):
            return True
        line = (node.type, node.source)
        if node.phase == "forward":
            self._harmless.add(line)
            return False
        return node.kind == "op" and bool(bad_outputs) and line not in self._harmless

    def _name_user(self, call: OpCall) -> None:
        """The line that uses a leaf stands for the leaf, which has none of its own."""
        if call.node.kind != "op" or not self._unused_leaves:
            return
        used = {edge.producer for edge in call.node.inputs}
        for origin, name in self._unused_leaves:
            if name in used and origin.kind == "leaf" and origin.source is None:
                origin.source = call.node.source
        self._unused_leaves = [each for each in self._unused_leaves if each[1] not in used]
