"""An index of the event files of one directory: scalars, and where histograms and pictures are.

Files of SummaryCollector, of torch.utils.tensorboard and of TensorFlow (whose scalars, histograms
and pictures are tensors) are read, without TensorBoard, and again as they grow.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from sonde.core.files.event_records import EVENT_MARK, RecordError, event_files, read_records
from sonde.core.files.event_values import (
    EventHistogram,
    EventPicture,
    EventValue,
    histogram_of,
    picture_of,
    values_of,
)
from sonde.core.files.protobuf_wire import WireError
from sonde.summary.errors import SummaryError

PlacedKind = Literal["histograms", "images"]
_MOST_TAGS: Final = 100_000
_MOST_LOGS: Final = 200
_MOST_DEPTH: Final = 6


@dataclass(slots=True)
class ScalarSeries:
    """The numbers of one tag in the order they were written."""

    steps: array[int] = field(default_factory=lambda: array("q"))
    values: array[float] = field(default_factory=lambda: array("d"))

    def in_order(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """By step; of a step that was written twice, by a run that was resumed, the last value."""
        steps, values = np.array(self.steps, np.int64), np.array(self.values, np.float64)
        order = np.argsort(steps, kind="stable")
        steps, values = steps[order], values[order]
        is_last = np.append(steps[1:] != steps[:-1], True) if steps.size else steps.astype(bool)
        return steps[is_last], values[is_last]


@dataclass(frozen=True, slots=True)
class PlacedValue:
    """A histogram or picture that is read when it is shown: ``size`` bytes at ``start``."""

    step: int
    file: Path
    start: int
    size: int


class EventIndex:
    """The event files of one directory. Used by one thread at a time."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.scalars: dict[str, ScalarSeries] = {}
        self.histograms: dict[str, list[PlacedValue]] = {}
        self.images: dict[str, list[PlacedValue]] = {}
        self.texts: dict[str, str] = {}
        self.problems: dict[str, str] = {}
        self._read_until: dict[Path, int] = {}

    def refresh(self) -> None:
        """Read what was written since the last call. A file that is damaged is read until there;
        ``problems`` says so."""
        try:
            files = event_files(self.directory)
        except OSError:  # It was removed.
            return
        for path in files:
            if path.name not in self.problems:
                try:
                    self._read(path)
                except (OSError, RecordError, WireError) as error:
                    self.problems[path.name] = f"{path.name} is damaged: {error}"

    def histogram(self, tag: str, at: int) -> EventHistogram:
        """The histogram ``at`` this place of a tag; SummaryError if there is none."""
        return histogram_of(self._bytes("histograms", tag, at))

    def picture(self, tag: str, at: int) -> EventPicture:
        return picture_of(self._bytes("images", tag, at))

    def _read(self, path: Path) -> None:
        begin = self._read_until.get(path, 0)
        if path.stat().st_size <= begin:
            return
        for record in read_records(path, begin):
            for value in values_of(record.data):
                self._note(value, path, record.start)
            self._read_until[path] = record.stop

    def _note(self, value: EventValue, path: Path, start: int) -> None:
        tags: dict[str, object] = getattr(self, value.kind)  # of one of the four tables
        if value.tag not in tags and len(tags) >= _MOST_TAGS:
            raise WireError(f"more than {_MOST_TAGS} tags", start)
        if value.kind == "scalars":
            series = self.scalars.setdefault(value.tag, ScalarSeries())
            series.steps.append(value.step)
            series.values.append(value.number)
        elif value.kind == "texts":
            self.texts[value.tag] = value.text
        else:
            size = value.stop - value.start
            placed = PlacedValue(value.step, path, start + value.start, size)
            table = self.histograms if value.kind == "histograms" else self.images
            table.setdefault(value.tag, []).append(placed)

    def _bytes(self, kind: PlacedKind, tag: str, at: int) -> bytes:
        found = (self.histograms if kind == "histograms" else self.images).get(tag, [])
        if not 0 <= at < len(found):
            raise SummaryError(
                f"{self.directory} has no {at + 1} {kind} of {tag[:200]!r}", slug="no-such-tag"
            )
        with found[at].file.open("rb") as stream:
            stream.seek(found[at].start)
            return stream.read(found[at].size)


def find_logs(root: Path) -> tuple[Path, ...]:
    """The directories with event files at or below ``root``, as TensorBoard's ``--logdir``; links
    to directories are not followed."""
    return tuple(sorted(_logs(root, 0)))[:_MOST_LOGS]


def _logs(directory: Path, depth: int) -> Iterator[Path]:
    try:
        entries = list(os.scandir(directory))
    except OSError:
        return
    if any(EVENT_MARK in entry.name and entry.is_file() for entry in entries):
        yield directory
    if depth < _MOST_DEPTH:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _logs(Path(entry.path), depth + 1)
