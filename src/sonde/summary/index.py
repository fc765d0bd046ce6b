"""``summary.json``: an index of the contents of a summary directory, beside the event files.

The file is replaced as a whole, never written in place, so a reader always finds a complete one.
JSON has no NaN and no Inf, so such numbers are the texts ``"nan"``, ``"inf"`` and ``"-inf"``.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sonde.core.files.atomic_file import write_whole
from sonde.core.files.input_file import read_input
from sonde.core.text.number_text import json_value
from sonde.summary.errors import SummaryError

INDEX_FILE = "summary.json"
FORMAT = "sonde-summary"
VERSION = 1
KINDS = ("histograms", "images", "texts")


@dataclass(slots=True)
class ScalarTag:
    """A series of one number; minimum and maximum ignore NaN, and are NaN if all values are."""

    first_step: int
    last_step: int
    count: int
    last: float
    minimum: float
    maximum: float

    def note(self, step: int, value: float) -> None:
        self.last_step = step
        self.count += 1
        self.last = value
        self.minimum = _extreme(min, self.minimum, value)
        self.maximum = _extreme(max, self.maximum, value)


@dataclass(slots=True)
class Tag:
    """A series of histograms, pictures or texts."""

    first_step: int
    last_step: int
    count: int


@dataclass(slots=True)
class SummaryIndex:
    """The contents of ``summary.json``."""

    started: str = ""
    updated: str = ""
    status: str = "running"
    step: int = 0
    scalars: dict[str, ScalarTag] = field(default_factory=dict)
    histograms: dict[str, Tag] = field(default_factory=dict)
    images: dict[str, Tag] = field(default_factory=dict)
    texts: dict[str, Tag] = field(default_factory=dict)
    graph: str = ""
    lineage: dict[str, Any] = field(default_factory=dict)

    def note_scalar(self, tag: str, step: int, value: float) -> None:
        """Add a number that was written."""
        self.step = max(self.step, step)
        if tag in self.scalars:
            self.scalars[tag].note(step, value)
        else:
            self.scalars[tag] = ScalarTag(step, step, 1, value, value, value)

    def note(self, kind: str, tag: str, step: int) -> None:
        """Add a histogram, picture or text that was written."""
        self.step = max(self.step, step)
        tags: dict[str, Tag] = getattr(self, kind)
        if tag in tags:
            tags[tag].last_step = step
            tags[tag].count += 1
        else:
            tags[tag] = Tag(step, step, 1)

    def write(self, directory: Path) -> None:
        """Replace the index of the directory."""
        document = {"format": FORMAT, "version": VERSION, **asdict(self)}
        text = json.dumps(json_value(document, number=_number), indent=1, allow_nan=False)
        write_whole(directory / INDEX_FILE, f"{text}\n")


def read_index(directory: Path) -> SummaryIndex | None:
    """The index of the directory; None when it has none."""
    path = directory / INDEX_FILE
    if not path.is_file():
        return None
    try:
        document = json.loads(read_input(path))
        if document["format"] != FORMAT or document["version"] != VERSION:
            raise SummaryError(
                f"{path} is {document['format']} version {document['version']}; this Sonde reads "
                f"{FORMAT} version {VERSION}",
                slug="summary-read",
            )
        return _parsed(document)
    except (OSError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise SummaryError(f"{path} is damaged: {error}", slug="summary-read") from error


def _parsed(document: dict[str, Any]) -> SummaryIndex:
    index = SummaryIndex(
        **{
            name: document[name]
            for name in ("started", "updated", "status", "step", "graph", "lineage")
        }
    )
    for tag, course in document["scalars"].items():
        for name in ("last", "minimum", "maximum"):
            course[name] = float(course[name])
        index.scalars[tag] = ScalarTag(**course)
    for kind in KINDS:
        getattr(index, kind).update({tag: Tag(**course) for tag, course in document[kind].items()})
    return index


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else repr(float(value))


def _extreme(choose: Any, before: float, value: float) -> float:
    if math.isnan(before) or math.isnan(value):
        return value if math.isnan(before) else before
    return float(choose(before, value))
