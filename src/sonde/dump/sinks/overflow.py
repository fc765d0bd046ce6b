"""``op_debug_mode: 3``: dumps only ops with non-finite values, and names their origins.

``watch.origins`` finds producers and carriers; ``from`` names the producer of a carrier's values.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from sonde.core.coverage import Coverage, Gap
from sonde.core.files.atomic_file import write_whole
from sonde.core.finding import Finding, as_fields
from sonde.core.graph import OpNode, Source
from sonde.core.interruption import ignored
from sonde.core.sink import NON_FINITE, OpCall, ScreenPath, Sink, StepEnd, TensorView
from sonde.core.text.number_text import json_number, json_value
from sonde.dump import layout
from sonde.dump.sinks.steps import StepFiles, raise_failure
from sonde.dump.writing.writer import Writer
from sonde.watch.explanations import facts_of_call
from sonde.watch.headline import Headline, origin_headline, spread_text
from sonde.watch.origins import Origin, OriginTracker, Traced

_STATISTICS = (
    *("nan_count", "positive_inf_count", "negative_inf_count"),
    *("max", "min", "avg", "l2norm", "finite_max", "finite_min"),
)


Verdict = Literal["fault", "harmless", "finite", "unknown"]


@dataclass(slots=True)
class OverflowSummary:
    """The origins of a run so far.

    ``fault`` is the first origin that is a fault, ``harmless`` the first that is not; ``producers``
    and ``carriers`` count the executions of ops with values of a fault; ``others`` counts the
    tensors that got those of ``fault``, each once however many steps it had them. ``cause``: the
    finding of a diagnosis that explains them.
    """

    fault: Origin | None = None
    harmless: Origin | None = None
    producers: int = 0
    carriers: int = 0
    cause: Finding | None = None
    _traced: list[tuple[str, Traced]] = field(default_factory=list)
    _carriers: dict[Origin, set[tuple[str, int]]] = field(default_factory=dict)
    _current: Origin | None = None
    _previous: Origin | None = None

    def begin_step(self) -> None:
        self._previous = self._current
        self._current = None

    @property
    def others(self) -> int:
        return 0 if self.fault is None else len(self._carriers.get(self.fault, ()))

    def count(self, op: str, traced: Traced) -> None:
        self._traced.append((op, traced))
        origin = traced.origin
        self._add(origin)
        if origin.is_listed:
            self._current = self._current or origin

    def _add(self, origin: Origin) -> None:
        if origin.is_fault and (self.fault is None or origin.number < self.fault.number):
            self.fault = origin

    def end_step(self, touched: Iterable[Origin]) -> None:
        for origin in touched:
            self._add(origin)
            if not origin.is_fault and self.harmless is None:
                self.harmless = origin
        if self._current is not None and not self._current.is_listed:
            self._current = None
        for op, traced in self._traced:
            if not traced.origin.is_fault:
                continue
            self.producers += traced.is_producer
            self.carriers += not traced.is_producer
            if not traced.is_producer:
                tensors = self._carriers.setdefault(traced.origin, set())
                tensors.update((op, slot) for slot in traced.bad_outputs)
        self._traced.clear()

    def forget_step(self) -> None:
        """Count nothing of the running step."""
        self._traced.clear()
        self._current = None

    def verdict(self, coverage: Coverage) -> Verdict:
        """What can be said of the run. That no values are a fault can be said only if everything
        the user selected was observed."""
        if self.fault is not None:
            return "fault"
        if coverage.unchosen_gaps:
            return "unknown"
        return "finite" if self.harmless is None else "harmless"

    @property
    def headline(self) -> Headline | None:
        """The sentence about the fault, printed and stored; None without one."""
        if self.fault is None:
            return None
        found = origin_headline(self.fault)
        why = "" if self.cause is None else f" Why: {self.cause.message} [{self.cause.rule}]."
        return Headline(found.title, f"{found.text}{spread_text(self.others)}{why}")

    @property
    def latest(self) -> Origin | None:
        """The origin of values in the running step or in the step before, else the first fault."""
        return self._current or self._previous or self.fault


class OverflowDump:
    """Writes ``overflow.json`` per step with a fault, and the tensors of the ops in it through
    ``tensors``.

    Whether values are a fault is known when their step ends; a step without a fault is deleted
    then. Tensors of a line whose values were no fault in an earlier step are written only from the
    op on at which they become one. At most ``most`` ops (0: all) are dumped, in order of time;
    expected infinities take at most half of them, so that a mask does not use them up before
    anything goes wrong. ``sees_all``: every op of a step is observed. ``coverage`` gets a gap if
    values cannot be read. Used from the training
    thread.
    """

    def __init__(
        self,
        files: StepFiles,
        writer: Writer,
        tensors: Sink,
        *,
        most: int,
        sees_all: bool = True,
        coverage: Coverage | None = None,
    ) -> None:
        self._files = files
        self._writer = writer
        self._tensors = tensors
        self._most = most
        self._dumped = 0
        self._expected = 0
        self._sees_all = sees_all
        self._coverage = coverage if coverage is not None else Coverage()
        self._entries: list[tuple[Origin, dict[str, Any]]] = []
        self._tracker = OriginTracker(facts=facts_of_call)
        self._has_overflow = False
        self.summary = OverflowSummary()
        self.ops: set[str] = set()

    def first_bad_op(self) -> str | None:
        """The origin of the latest non-finite values, for messages of other parts."""
        origin = self.summary.latest
        return None if origin is None else origin.place

    def keeps_step(self) -> bool:
        """Whether the running step is kept, however it ends: if NaN or Inf arose in it. Values of
        an earlier step do not count: ``print(loss.item())`` after the last step is not a step."""
        return self._has_overflow

    def begin_step(self, step: int) -> None:
        self._tensors.begin_step(step)
        self._entries = []
        self._expected = 0
        self._tracker.begin_step()
        self._has_overflow = False
        self.summary.begin_step()

    def has(self, view: TensorView) -> bool:
        return False

    def write(self, call: OpCall) -> None:
        for view in (*call.inputs, *call.outputs):
            # The result of a collective is judged when the program has waited for it.
            if view.is_filled and view.nbytes and not view.has_countable_values:
                text = f"{call.node.name} {view.io} {view.slot}: {view.problem}"
                self._coverage.add(Gap("unreadable_tensors", text, call.step))
        found = self._tracker.look(call)
        if found is None:
            return
        origin, is_producer = found.origin, found.is_producer
        self.summary.count(call.node.name, found)
        self._has_overflow |= origin.is_listed and origin.step == call.step
        if self._has_room(origin):
            self._expected += not origin.is_listed
            self._entries.append((origin, _entry(call, origin, is_producer=is_producer)))
            if not self._tracker.is_known_harmless(origin):
                self._tensors.write(call)

    # ---------------------------------------------------------------- files

    def _has_room(self, origin: Origin) -> bool:
        if not self._most:
            return True
        room = self._most - self._dumped
        if len(self._entries) >= room:
            return False
        return origin.is_listed or self._expected < max(1, room // 2)

    def end_step(self, end: StepEnd) -> None:
        self._decide_faults(end)
        if not any(origin.is_fault for origin, _ in self._entries):
            self._entries = []
            self._files.drop_step()
            self._tensors.drop_step()
            return
        self._dumped += len(self._entries)
        entries = [entry for _, entry in self._entries]
        for entry in entries:
            if entry["op"] in self._tracker.first_uses:  # A leaf, which has no line of its own.
                entry["source"] = _source_entry(self._tracker.first_uses[entry["op"]])
        path = self._files.open(end.step) / layout.OVERFLOW
        text = json.dumps(entries, indent=2, allow_nan=False)
        self._writer.write_text(str(path), text.encode() + b"\n")
        self._files.running.add(len(text) + 1)
        self.ops.update(entry["op"] for entry in entries)
        raise_failure(self._writer)
        self._entries = []
        self._tensors.end_step(end)

    def drop_step(self) -> None:
        if self._has_overflow:
            self._decide_faults(None)
        else:
            self.summary.forget_step()
        self._entries = []
        self._tensors.drop_step()

    def _decide_faults(self, end: StepEnd | None) -> None:
        """Decide which origins of the step are a fault; if it was dropped, unexpected ones are."""
        nodes = () if end is None else _nodes(end)
        is_known = self._sees_all and end is not None
        self.summary.end_step(self._tracker.end_step(nodes, sees_all=is_known))

    def close(self) -> None:
        self._tensors.close()

    def write_verdict(self) -> None:
        """Write the verdict on the run, when it has ended."""
        coverage = self._coverage
        origin = self.summary.fault or self.summary.harmless
        headline, cause = self.summary.headline, self.summary.cause
        document = {
            "verdict": self.summary.verdict(coverage),
            "origin": None if origin is None else _origin_entry(origin),
            "headline": None
            if headline is None
            else {"title": headline.title, "text": headline.text},
            "finding": None if cause is None else as_fields(cause),
            "producers": self.summary.producers,
            "carriers": self.summary.carriers,
            "observed": coverage.to_json(),
        }
        text = json.dumps(document, indent=2, allow_nan=False)
        with ignored(OSError):  # The disk is full: that is reported already.
            write_whole(self._files.rank.overflow, text + "\n")

    def fast_path(self) -> ScreenPath:
        """Only ops with values that are not finite are wanted."""
        return ScreenPath(lambda node, leaves: NON_FINITE, every_op=NON_FINITE)


def _nodes(end: StepEnd) -> Iterator[OpNode]:
    """The nodes of the step. The graph is not made unless they are asked for."""
    yield from end.graph.nodes


def _entry(call: OpCall, origin: Origin, *, is_producer: bool) -> dict[str, Any]:
    """The entry of ``call`` in ``overflow.json``; its non-finite values come from ``origin``."""
    entry: dict[str, Any] = {
        "op": call.node.name,
        "role": "producer" if is_producer else "carrier",
        "phase": call.node.phase,
        "source": _source_entry(call.node.source),
        "inputs": [_statistics(view) for view in call.inputs],
        "outputs": [_statistics(view) for view in call.outputs],
        "from": None if is_producer else origin.op,
    }
    if origin.step != call.step and not is_producer:
        entry["from_step"] = origin.step
    if is_producer and origin.argument is not None:
        entry["by_argument"] = origin.argument
    return entry


def _origin_entry(origin: Origin) -> dict[str, Any]:
    return {
        "op": origin.op,
        "kind": origin.kind,
        "step": origin.step,
        "is_fault": origin.is_fault,
        "by_argument": origin.argument,
        "source": _source_entry(origin.source),
        "cause": _cause_entry(origin),
    }


def _cause_entry(origin: Origin) -> dict[str, Any] | None:
    """Why the op made the values, if they show it."""
    made = origin.made or origin.turned
    cause = None if made is None else made.cause
    if made is None or cause is None:
        return None
    return {
        "op": made.op,
        "kind": cause.detail,
        "text": cause.message,
        "status": cause.status,
        "advice": cause.advice,
        "evidence": json_value(cause.evidence),
    }


def _source_entry(source: Source | None) -> dict[str, Any] | None:
    return None if source is None else source.fields()


def _statistics(view: TensorView) -> dict[str, Any]:
    """Shape, dtype and statistics; numbers that JSON lacks are text.

    Memory that is not filled yet has no statistics. Complex values have only counts: an element is
    NaN if either part is, else infinite (counted as positive) if either part is.
    """
    found: dict[str, Any] = {
        "slot": view.slot,
        "dtype": view.dtype,
        "shape": list(view.shape),
        "nan_count": 0,
        "positive_inf_count": 0,
        "negative_inf_count": 0,
    }
    if not view.is_filled:
        found["uninitialised"] = True
    elif view.problem is not None:
        found["problem"] = view.problem
    elif view.dtype.startswith("complex"):
        values = view.numpy()
        found["nan_count"] = int(np.isnan(values).sum())
        found["positive_inf_count"] = int((np.isinf(values) & ~np.isnan(values)).sum())
    else:
        statistics = view.statistics()
        for name in _STATISTICS:
            found[name] = json_number(getattr(statistics, name))
    return found
