"""``op_debug_mode: 3``: only ops with non-finite values, and which of them made the first.

``watch.origins`` decides what producers and carriers are; ``from`` names the producer that a
carrier's values come from.
"""

from __future__ import annotations

import json
from typing import Any

from sonde.core.graph import Graph
from sonde.core.sink import NON_FINITE, OpCall, ScreenPath, Sink, StepEnd, TensorView
from sonde.dump import layout
from sonde.dump.sinks.overflow_entry import overflow_entry, source_entry
from sonde.dump.sinks.steps import StepFiles, raise_failure
from sonde.dump.writing.writer import Writer
from sonde.watch.origins import Origin, OriginTracker, OverflowSummary


class OverflowDump:
    """Writes ``overflow.json`` per step, and the tensors of the ops in it through ``tensors``.

    At most ``most`` ops (0: all) are dumped, in order of time; expected infinities take at most
    half of them, so that a mask does not use them up before anything goes wrong. ``sees_all``:
    every op of a step is observed. Used from the training thread.
    """

    def __init__(
        self,
        files: StepFiles,
        writer: Writer,
        tensors: Sink,
        *,
        most: int,
        sees_all: bool = True,
    ) -> None:
        self._files = files
        self._writer = writer
        self._tensors = tensors
        self._most = most
        self._dumped = 0
        self._dumped_expected = 0
        self._sees_all = sees_all
        self._entries: list[dict[str, Any]] = []
        self._unused_leaves: list[tuple[dict[str, Any] | None, str]] = []
        self._tracker = OriginTracker()
        self._has_overflow = False
        self.summary = OverflowSummary()

    def first_bad_op(self) -> str | None:
        """Where the latest non-finite values come from, for messages of others."""
        origin = self.summary.latest
        return None if origin is None else origin.place

    def keeps_step(self) -> bool:
        """Whether the running step has something to show, however it ends."""
        return self._has_overflow

    def begin_step(self, step: int) -> None:
        self._tensors.begin_step(step)
        self._entries = []
        self._unused_leaves.clear()
        self._tracker.begin_step()
        self._has_overflow = False
        self.summary.begin_step()

    def has(self, view: TensorView) -> bool:
        return False

    def write(self, call: OpCall) -> None:
        found = self._tracker.look(call)
        if found is None:
            return
        origin, is_producer = found.origin, found.is_producer
        self.summary.count(found)
        self._has_overflow |= origin.is_listed
        self._name_user(call)
        entry = None
        if self._has_room(origin):
            self._dumped += 1
            self._dumped_expected += not origin.is_listed
            entry = overflow_entry(call, origin, is_producer=is_producer)
            self._entries.append(entry)
            self._tensors.write(call)
        if call.node.kind != "op":
            self._unused_leaves.append((entry, call.node.name))

    def _name_user(self, call: OpCall) -> None:
        """The line that uses a leaf stands for the leaf, which has none of its own."""
        if call.node.kind != "op" or not self._unused_leaves:
            return
        used = {edge.producer for edge in call.node.inputs}
        for entry, name in self._unused_leaves:
            if name in used and entry is not None:
                entry["source"] = source_entry(call.node.source)
        self._unused_leaves = [each for each in self._unused_leaves if each[1] not in used]

    # ---------------------------------------------------------------- files

    def _has_room(self, origin: Origin) -> bool:
        if not self._most:
            return True
        if self._dumped >= self._most:
            return False
        return origin.is_listed or self._dumped_expected < max(1, self._most // 2)

    def end_step(self, end: StepEnd) -> None:
        self._settle(end.graph)
        if self._entries:
            path = self._files.open(end.step) / layout.OVERFLOW
            text = json.dumps(self._entries, indent=2, allow_nan=False)
            self._writer.write_text(str(path), text.encode() + b"\n")
            raise_failure(self._writer)
        self._entries = []
        self._tensors.end_step(end)

    def drop_step(self) -> None:
        self._settle(None)
        self._entries = []
        self._tensors.drop_step()

    def _settle(self, graph: Graph | None) -> None:
        """Decide what of the step is a fault; without its graph everything unexpected is."""
        nodes = () if graph is None else graph.nodes
        is_known = self._sees_all and graph is not None
        self.summary.end_step(self._tracker.end_step(nodes, sees_all=is_known))

    def close(self) -> None:
        self._tensors.close()

    def fast_path(self) -> ScreenPath:
        """Only ops with values that are not finite are wanted."""
        return ScreenPath(lambda node, leaves: NON_FINITE)
