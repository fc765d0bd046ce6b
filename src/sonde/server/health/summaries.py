"""The event files that a server shows: of SummaryCollector, and TensorBoard logs of any program."""

from __future__ import annotations

import threading
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from sonde.core.errors import UsageError
from sonde.core.files.protobuf_wire import WireError
from sonde.server.health.source import bounded, signal_curve
from sonde.summary.errors import SummaryError
from sonde.summary.event_index import EventIndex, PlacedValue, find_logs
from sonde.summary.index import read_index
from sonde.trends.database import StepSeries
from sonde.wire import summaries
from sonde.wire.health import LineageFact, SignalCurve
from sonde.wire.queries import PictureQuery, TagQuery

_BINS: Final = 40
_MOST_HISTOGRAMS: Final = 120
_MOST_POINTS: Final = 20_000
_MOST_FACTS: Final = 200
_MOST_VALUE: Final = 2000


class LogDirectories:
    """The logs at or below some directories, found again at each listing. Used from any thread."""

    def __init__(self, roots: Sequence[Path] = ()) -> None:
        self._roots = tuple(roots)
        self._lock = threading.Lock()
        self._indices: dict[Path, EventIndex] = {}

    def listing(self) -> summaries.SummaryLogs:
        """All logs, with what was written since the last call."""
        with self._lock:
            for root in self._roots:
                for path in find_logs(root):
                    self._indices.setdefault(path, EventIndex(path))
            for index in self._indices.values():
                index.refresh()
            found = [_log(at, each, self._name(each)) for at, each in enumerate(self._all())]
            return summaries.SummaryLogs(tuple(found))

    def curve(self, number: int, query: TagQuery) -> SignalCurve:
        points = bounded(query.points, _MOST_POINTS, "points")
        with self._lock:
            index = self._log(number)
            series = index.scalars.get(query.tag)
            if series is None:
                raise _no_tag(index, query.tag)
            steps, values = series.in_order()
        return signal_curve(
            query.tag, StepSeries(steps, values, values, values), None, None, points
        )

    def histograms(self, number: int, query: TagQuery) -> summaries.TagHistograms:
        most = min(bounded(query.points, _MOST_POINTS, "points"), _MOST_HISTOGRAMS)
        with self._lock:
            index = self._log(number)
            placed = index.histograms.get(query.tag)
            if not placed:
                raise _no_tag(index, query.tag)
            chosen = _spread(len(placed), most)
            try:
                found = [index.histogram(query.tag, at) for at in chosen]
            except (OSError, WireError) as error:
                raise _unreadable(index, error) from None
        low = min(float(each.edges[0]) for each in found)
        high = max(float(each.edges[-1]) for each in found)
        if not high > low:  # All values are the same number.
            low, high = low - 0.5 * max(abs(low), 1.0), high + 0.5 * max(abs(high), 1.0)
        edges = np.linspace(low, high, _BINS + 1)
        return summaries.TagHistograms(
            query.tag,
            tuple(placed[at].step for at in chosen),
            tuple(edges.tolist()),
            tuple(tuple(each.rebinned(edges).tolist()) for each in found),
        )

    def picture(self, number: int, query: PictureQuery) -> summaries.TagPicture:
        with self._lock:
            index = self._log(number)
            placed: Sequence[PlacedValue] = index.images.get(query.tag, ())
            if not placed:
                raise _no_tag(index, query.tag)
            at = len(placed) - 1 if query.at is None else min(query.at, len(placed) - 1)
            try:
                found = index.picture(query.tag, at)
            except (OSError, WireError) as error:
                raise _unreadable(index, error) from None
        return summaries.TagPicture(
            query.tag,
            tuple(each.step for each in placed),
            at,
            found.media_type,
            b64encode(found.data).decode("ascii"),
        )

    def _all(self) -> list[EventIndex]:
        return list(self._indices.values())

    def _log(self, number: int) -> EventIndex:
        known = self._all()
        if not 0 <= number < len(known):
            raise UsageError(f"no log {number}; there are {len(known)}", slug="no-such-log")
        return known[number]

    def _name(self, index: EventIndex) -> str:
        """The path below the directory that was given, which is named if there are several."""
        for root in self._roots:
            if index.directory.is_relative_to(root):
                below = index.directory.relative_to(root)
                name = root.absolute().name
                return name if below == Path() else str(name / below)
        return str(index.directory)


def _log(number: int, index: EventIndex, name: str) -> summaries.SummaryLog:
    problems = list(index.problems.values())
    try:
        listing = read_index(index.directory)
    except SummaryError as error:
        listing = None
        problems.append(error.message)
    steps = [max(each.steps) for each in index.scalars.values() if each.steps]
    steps += [each[-1].step for each in (*index.histograms.values(), *index.images.values())]
    return summaries.SummaryLog(
        number=number,
        name=name,
        path=str(index.directory),
        status="" if listing is None else listing.status,
        last_step=max(steps, default=None),
        scalars=tuple(sorted(index.scalars)),
        histograms=tuple(sorted(index.histograms)),
        images=tuple(sorted(index.images)),
        texts=tuple(
            LineageFact(tag, text[:_MOST_VALUE])
            for tag, text in sorted(index.texts.items())
            if listing is None or not tag.startswith("lineage/")
        ),
        lineage=() if listing is None else tuple(lineage_facts(listing.lineage))[:_MOST_FACTS],
        problems=tuple(problems),
    )


def lineage_facts(facts: Any, prefix: str = "") -> list[LineageFact]:
    """Nested facts as lines: ``train learning_rate``."""
    if not isinstance(facts, dict | list):
        return [LineageFact(prefix, str(facts)[:_MOST_VALUE])]
    named = facts.items() if isinstance(facts, dict) else enumerate(facts, 1)
    return [
        fact for name, value in named for fact in lineage_facts(value, f"{prefix} {name}".strip())
    ]


def _spread(count: int, most: int) -> list[int]:
    """At most so many places of ``count``, evenly spread, with the first and the last."""
    if count <= most:
        return list(range(count))
    return sorted({round(at * (count - 1) / max(most - 1, 1)) for at in range(most)})


def _no_tag(index: EventIndex, tag: str) -> UsageError:
    return UsageError(f"{index.directory} has no such tag: {tag[:200]!r}", slug="no-such-tag")


def _unreadable(index: EventIndex, error: Exception) -> SummaryError:
    return SummaryError(f"{index.directory} cannot be read: {error}", slug="summary-read")
