"""``op_debug_mode: 3``: only ops with non-finite values, and which of them made the first.

A *producer* has finite inputs and a non-finite output (a leaf that comes in non-finite counts as
one: it has no inputs at all). A *carrier* has non-finite inputs; ``from`` names the producer they
come from. Infinity counts as much as NaN: what makes the first inf is the origin of the nan it
becomes.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any

from sonde import kernels
from sonde.core.graph import OpNode
from sonde.core.sink import LaneParts, OpCall, Sink, StepEnd, TensorView
from sonde.dump import layout
from sonde.dump.steps import StepFiles, raise_failure
from sonde.dump.writer import Writer


@dataclass(frozen=True, slots=True)
class Origin:
    """Where non-finite values were first made."""

    step: int
    op: str


@dataclass(slots=True)
class OverflowSummary:
    """What a run has shown so far: the first producer, and how often values were not finite.

    ``first`` leaves out infinities that were asked for (``masked_fill(..., -inf)``) as long as
    nothing else went wrong.
    """

    first: tuple[int, dict[str, Any]] | None = None
    producers: int = 0
    carriers: int = 0
    steps: list[int] = field(default_factory=list)


class OverflowDump:
    """Writes ``overflow.json`` per step, and the tensors of the ops in it through ``tensors``.

    At most ``most`` ops (0: all) are dumped, in order of time. Used from the training thread.
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
        self._entries: list[dict[str, Any]] = []
        self._counts: dict[object, int] = {}
        self._origins: dict[object, Origin] = {}
        self._latest: Origin | None = None
        self._lane: Any = None
        self.summary = OverflowSummary()

    def first_bad_op(self) -> str | None:
        """The first producer of the run and its source line, for messages of others."""
        if self.summary.first is None:
            return None
        _, entry = self.summary.first
        source = entry["source"]
        return f"{entry['op']} at {source['file']}:{source['line']}" if source else entry["op"]

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
        self._counts.clear()
        self._origins.clear()

    def write(self, call: OpCall) -> None:
        bad_outputs = [view for view in call.outputs if self._non_finite(view)]
        if not bad_outputs and call.node.kind != "op":
            return
        bad_inputs = [view for view in call.inputs if self._non_finite(view)]
        if not bad_outputs and not bad_inputs:
            return
        origin = self._origin(call, bad_inputs)
        for view in bad_outputs:
            if view.values_token is not None:
                self._origins[view.values_token] = origin
        if self._most and self._dumped >= self._most:
            return
        self._dumped += 1
        self._entries.append(_entry(call, origin, is_carrier=bool(bad_inputs)))
        self._tensors.write(call)

    def _non_finite(self, view: TensorView) -> bool:
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

    def _origin(self, call: OpCall, bad_inputs: list[TensorView]) -> Origin:
        for view in bad_inputs:
            known = self._origins.get(view.values_token)
            if known is not None:
                return known
        if call.node.kind != "op" and self._latest is not None:
            # A weight or a batch that was spoiled in an earlier step.
            return self._latest
        return Origin(call.step, call.node.name)

    def end_step(self, end: StepEnd) -> None:
        self._finish(end.step)
        self._tensors.end_step(end)

    def _finish(self, step: int) -> None:
        if self._entries:
            self._summarise(step)
            path = self._files.open(step) / layout.OVERFLOW
            text = json.dumps(self._entries, indent=2, allow_nan=False)
            self._writer.write_text(str(path), text.encode() + b"\n")
            raise_failure(self._writer)
        self._entries = []

    def _summarise(self, step: int) -> None:
        summary = self.summary
        summary.steps.append(step)
        producers = [entry for entry in self._entries if entry["role"] == "producer"]
        summary.producers += len(producers)
        summary.carriers += len(self._entries) - len(producers)
        if summary.first is None:
            is_harmed = any(not entry.get("by_argument") for entry in producers) or any(
                statistics["nan_count"]
                for entry in self._entries
                for statistics in entry["outputs"]
            )
            if producers and is_harmed:
                chosen = _most_telling(producers, self._entries)
                summary.first = (step, chosen)
                self._latest = Origin(step, chosen["op"])

    def drop_step(self) -> None:
        self._entries = []
        self._tensors.drop_step()

    def close(self) -> None:
        self._tensors.close()


def _most_telling(producers: list[dict[str, Any]], entries: list[dict[str, Any]]) -> dict[str, Any]:
    """The first producer that was not asked to make infinities, else the one a nan comes from."""
    for entry in producers:
        if not entry.get("by_argument"):
            return entry
    for entry in entries:
        if any(statistics["nan_count"] for statistics in entry["outputs"]):
            for producer in producers:
                if producer["op"] == entry["from"]:
                    return producer
    return producers[0]


def _entry(call: OpCall, origin: Origin, *, is_carrier: bool) -> dict[str, Any]:
    node = call.node
    is_origin = origin == Origin(call.step, node.name)
    entry: dict[str, Any] = {
        "op": node.name,
        "role": "producer" if is_origin and not is_carrier else "carrier",
        "phase": node.phase,
        "source": _source(node),
        "inputs": [_statistics(view) for view in call.inputs],
        "outputs": [_statistics(view) for view in call.outputs],
        "from": None if is_origin else origin.op,
    }
    if origin.step != call.step:
        entry["from_step"] = origin.step
    asked = _infinite_argument(call)
    if asked and not is_carrier:
        entry["by_argument"] = asked
    return entry


def _source(node: OpNode) -> dict[str, Any] | None:
    source = node.source
    if source is None:
        return None
    return {
        "file": source.file,
        "line": source.line,
        "function": source.function,
        "code": source.code,
    }


def _infinite_argument(call: OpCall) -> str | None:
    """``value=-inf`` when the op was told to write infinities."""
    for name, text in call.attributes:
        if text.strip("-") in ("inf", "nan"):
            return f"{name}={text}"
    return None


def _statistics(view: TensorView) -> dict[str, Any]:
    """Shape, dtype and summary numbers; what JSON has no number for is text."""
    found: dict[str, Any] = {
        "slot": view.slot,
        "dtype": view.dtype,
        "shape": list(view.shape),
        "nan_count": 0,
        "positive_inf_count": 0,
        "negative_inf_count": 0,
    }
    if view.problem is not None or view.dtype.startswith("complex"):
        return found
    statistics = view.statistics()
    found["nan_count"] = statistics.nan_count
    found["positive_inf_count"] = statistics.positive_inf_count
    found["negative_inf_count"] = statistics.negative_inf_count
    for name in ("max", "min", "avg", "l2norm", "finite_max", "finite_min"):
        found[name] = _number(getattr(statistics, name))
    return found


def _number(value: float | int | None) -> float | int | str | None:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
