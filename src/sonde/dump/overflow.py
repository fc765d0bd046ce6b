"""``op_debug_mode: 3``: only ops with non-finite values, and which of them made the first.

A *producer* has finite inputs and a non-finite output (a leaf that comes in non-finite counts as
one: it has no inputs at all). A *carrier* has non-finite inputs; ``from`` names the producer they
come from. Infinity counts as much as NaN: what makes the first inf is the origin of the nan it
becomes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from sonde import kernels
from sonde.core.sink import LaneParts, OpCall, Sink, StepEnd, TensorView
from sonde.dump import layout
from sonde.dump.overflow_entry import (
    has_nan,
    infinite_argument,
    overflow_entry,
    producer_of,
    source_entry,
)
from sonde.dump.overflow_origin import Origin, OriginKind, OverflowSummary
from sonde.dump.steps import StepFiles, raise_failure
from sonde.dump.writer import Writer


class OverflowDump:
    """Writes ``overflow.json`` per step, and the tensors of the ops in it through ``tensors``.

    At most ``most`` ops (0: all) are dumped, in order of time; infinities that were put in on
    purpose and have done no harm take at most half of them, so that a mask does not use them up
    before anything goes wrong. Used from the training thread.
    """

    def __init__(
        self,
        files: StepFiles,
        writer: Writer,
        tensors: Sink,
        *,
        most: int,
    ) -> None:
        self._files = files
        self._writer = writer
        self._tensors = tensors
        self._most = most
        self._dumped = 0
        self._dumped_innocent = 0
        self._entries: list[dict[str, Any]] = []
        self._unused_leaves: list[tuple[Origin, dict[str, Any] | None, str]] = []
        self._counts: dict[object, int] = {}
        # Who spoiled what: contents, in this step; ops, in this step; memory, as long as it lives.
        self._by_contents: dict[object, Origin] = {}
        self._by_op: dict[str, Origin] = {}
        self._by_memory: WeakKeyDictionary[Any, Origin] = WeakKeyDictionary()
        self._origins = 0
        self._is_spoiled = False
        self._lane: Any = None
        self.summary = OverflowSummary()

    def first_bad_op(self) -> str | None:
        """Where the latest non-finite values come from, for messages of others."""
        origin = self.summary.latest
        return None if origin is None else origin.place

    def keeps_step(self) -> bool:
        """Whether the running step has something to show, however it ends."""
        return self._is_spoiled

    def lane_parts(self) -> LaneParts:
        """What the shortcut needs, see ``core.sink``: it brings only the ops that are bad here."""
        return LaneParts(
            heads=[],
            tails=[],
            stamps=[],
            index=[],
            whole=kernels.non_finite,
            strided=kernels.non_finite_strided,
            describe=lambda node, view: (b"", b""),
            other=lambda node, view, stamp: view.non_finite() > 0,
            grow=lambda: (0, 0),
            takes_inputs=True,
            takes_outputs=True,
            is_watch=True,
        )

    def take_lane(self, lane: Any) -> None:
        self._lane = lane

    def begin_step(self, step: int) -> None:
        if self._lane is not None:
            self._lane.begin()
        self._tensors.begin_step(step)
        self._entries = []
        self._unused_leaves.clear()
        self._counts.clear()
        self._by_contents.clear()
        self._by_op.clear()
        self._is_spoiled = False
        self.summary.begin_step()

    def has(self, view: TensorView) -> bool:
        return False

    def write(self, call: OpCall) -> None:
        bad_outputs = [view for view in call.outputs if self._is_bad(view)]
        if not bad_outputs and call.node.kind != "op":
            return
        bad_inputs = [view for view in call.inputs if self._is_bad(view)]
        if not bad_outputs and not bad_inputs:
            return
        bad_inputs += [view for view in call.inputs if self._is_bad_underneath(view)]
        origin, is_producer = self._find_origin(call, bad_inputs, bad_outputs)
        if not origin.is_guilty:
            origin.is_guilty = self._does_harm(call, origin, bad_outputs, is_producer)
        self._remember(call, origin, bad_outputs)
        self.summary.count(origin, is_producer=is_producer)
        self._is_spoiled |= origin.is_guilty
        self._name_user(call)
        entry = None
        if self._has_room(origin):
            self._dumped += 1
            self._dumped_innocent += not origin.is_guilty
            entry = overflow_entry(call, origin, is_producer=is_producer)
            self._entries.append(entry)
            self._tensors.write(call)
        if call.node.kind != "op":
            self._unused_leaves.append((origin, entry, call.node.name))

    # ---------------------------------------------------------------- what is bad

    def _is_bad(self, view: TensorView) -> bool:
        if not view.is_filled:
            return False
        token = view.values_token
        if token is not None:
            known = self._counts.get(token)
            if known is not None:
                return known > 0
        count = view.non_finite()
        if token is not None:
            self._counts[token] = count
        return count > 0

    def _is_bad_underneath(self, view: TensorView) -> bool:
        """Whether memory that was filled in part only holds non-finite values an op put there."""
        return not view.is_filled and self._spoiler(view) is not None and view.non_finite() > 0

    # ---------------------------------------------------------------- who made it

    def _find_origin(
        self, call: OpCall, bad_inputs: Sequence[TensorView], bad_outputs: Sequence[TensorView]
    ) -> tuple[Origin, bool]:
        """The origin of the call's values, and whether that is the call itself."""
        node = call.node
        if bad_inputs:
            found = [self._origin_of(call, view) for view in bad_inputs]
            # What did harm before what did none, then the earliest.
            return min(found, key=lambda each: (not each.is_guilty, each.number)), False
        if node.kind == "op":
            return self._new("op", call, node.name, asked=infinite_argument(call)), True
        for view in bad_outputs:
            earlier = self._spoiler(view)
            if earlier is not None:
                # Spoiled by an op of an earlier step, or the same leaf again.
                return earlier, earlier.kind == "leaf" and earlier.op == node.name
        return self._new("leaf", call, node.name), True

    def _origin_of(self, call: OpCall, view: TensorView) -> Origin:
        producer = producer_of(call.node, view.slot)
        for known in (
            self._by_contents.get(view.values_token),
            self._spoiler(view),
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

    def _spoiler(self, view: TensorView) -> Origin | None:
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
        if is_producer and origin.asked is not None:
            return False
        if is_producer and origin.kind == "op":
            return True
        if not is_producer and call.node.phase != "forward" and bad_outputs:
            return True
        return any(has_nan(view) for view in bad_outputs)

    def _name_user(self, call: OpCall) -> None:
        """The line that uses a leaf stands for the leaf, which has none of its own."""
        if call.node.kind != "op" or not self._unused_leaves:
            return
        used = {edge.producer for edge in call.node.inputs}
        for origin, entry, name in self._unused_leaves:
            if name in used:
                if origin.kind == "leaf" and origin.source is None:
                    origin.source = call.node.source
                if entry is not None:
                    entry["source"] = source_entry(call.node.source)
        self._unused_leaves = [each for each in self._unused_leaves if each[2] not in used]

    # ---------------------------------------------------------------- files

    def _has_room(self, origin: Origin) -> bool:
        if not self._most:
            return True
        if self._dumped >= self._most:
            return False
        return origin.is_guilty or self._dumped_innocent < max(1, self._most // 2)

    def end_step(self, end: StepEnd) -> None:
        if self._entries:
            path = self._files.open(end.step) / layout.OVERFLOW
            text = json.dumps(self._entries, indent=2, allow_nan=False)
            self._writer.write_text(str(path), text.encode() + b"\n")
            raise_failure(self._writer)
        self._entries = []
        self._tensors.end_step(end)

    def drop_step(self) -> None:
        self._entries = []
        self._tensors.drop_step()

    def close(self) -> None:
        self._tensors.close()
