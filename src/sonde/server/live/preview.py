"""Evaluates a watchpoint that is not set yet on the statistics that a training has recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sonde.core.keys import Io
from sonde.core.statistics import Statistics
from sonde.debugger.initial_watchpoints import numbered
from sonde.server.live.history import RecordedStep
from sonde.watch.evaluate import NodeWatches, evaluate
from sonde.watch.measured_tensor import MeasuredTensor, RecordedStatistics
from sonde.watch.watchpoint import WatchedNode, make_watches
from sonde.wire.shapes import Node, TensorType
from sonde.wire.watchpoints import Preview, WatchpointDraft

_MOST_NAMED: Final = 5
_NO_VALUES: Final = "only the statistics are known"


class _RecordedOutput(MeasuredTensor):
    """An output of which only statistics were recorded."""

    __slots__ = ("_found", "dtype", "io", "shape", "slot")

    def __init__(
        self, slot: int, type_: TensorType, found: tuple[Statistics, Statistics | None]
    ) -> None:
        self.io: Io = "output"
        self.slot: int = slot
        self.dtype: str = type_.dtype
        self.shape: tuple[int, ...] = type_.shape
        self._found = found

    def statistics(self) -> Statistics:
        return self._found[0]

    def recorded(self) -> RecordedStatistics:
        return RecordedStatistics(*self._found, is_all=True)

    def buffer(self) -> str:
        return _NO_VALUES


def previewed(
    draft: WatchpointDraft, nodes: Sequence[Node], recorded: RecordedStep | None
) -> Preview:
    """What the watchpoint would have hit in the recorded step. Conditions that compare with the
    values of the step before, or count values in a range, may remain undecided."""
    if recorded is None:
        return Preview(None, 0, 0, 0)
    names = {node.name for node in nodes}
    watches = make_watches([numbered(0, draft)], 0, names)
    judged = undecided = 0
    hits: list[str] = []
    for node in nodes:
        watched = WatchedNode(node.name, node.type, node.scope, node.categories, node.kind != "op")
        planned = NodeWatches.select(watches, watched)
        for slot, type_ in enumerate(node.outputs) if planned else ():
            now, before = recorded.statistics(node.name, slot)
            if now is None:
                continue
            tensor = _RecordedOutput(slot, type_, (now, before))
            verdicts = {each.judgement.verdict for each in evaluate(planned, tensor, recorded.step)}
            if verdicts == {"undecided"}:
                undecided += 1
                continue
            judged += 1
            if "hit" in verdicts:
                hits.append(node.name)
    return Preview(recorded.step, judged, len(hits), undecided, tuple(hits[:_MOST_NAMED]))
