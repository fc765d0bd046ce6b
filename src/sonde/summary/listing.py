"""Lists the contents of a summary directory, without torch.

They are taken from ``summary.json``. A directory of event files without one, written by another
tool or by a run that was killed early, is read with tensorboard itself.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from sonde.core.files.event_records import event_files
from sonde.summary.errors import SummaryError
from sonde.summary.index import INDEX_FILE, ScalarTag, SummaryIndex, Tag, read_index


@dataclass(frozen=True, slots=True)
class EventFile:
    """One file of TensorBoard events."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class SummaryListing:
    """The contents of a summary directory, as plain values.

    ``status`` is ``running``, ``finished`` or ``failed``, or ``unknown`` without an index; a
    killed run stays ``running``. ``graph`` is ``operators``, ``modules`` or empty.
    """

    path: str
    status: str
    started: str
    updated: str
    step: int
    scalars: dict[str, ScalarTag]
    histograms: dict[str, Tag]
    images: dict[str, Tag]
    texts: dict[str, Tag]
    graph: str
    lineage: dict[str, Any]
    files: tuple[EventFile, ...]

    @property
    def size(self) -> int:
        """The bytes of all event files."""
        return sum(file.size for file in self.files)

    def as_dict(self) -> dict[str, Any]:
        """Dicts, lists, texts and numbers only; numbers may be NaN."""
        return asdict(self)


def is_summary(path: str | os.PathLike[str]) -> bool:
    """Whether the directory holds a summary: an index or event files."""
    directory = Path(path)
    return directory.is_dir() and (
        (directory / INDEX_FILE).is_file() or bool(_event_files(directory))
    )


def read_summary(path: str | os.PathLike[str]) -> SummaryListing:
    """List the directory; ``SummaryError`` if it is not a summary or cannot be read."""
    directory = Path(path)
    if not is_summary(directory):
        raise SummaryError(
            f"{directory} holds no summary: neither {INDEX_FILE} nor an event file",
            slug="summary-read",
        )
    files = _event_files(directory)
    index = read_index(directory) or _from_events(directory)
    contents = {each.name: getattr(index, each.name) for each in fields(index)}
    return SummaryListing(path=str(directory), files=files, **contents)


def _event_files(directory: Path) -> tuple[EventFile, ...]:
    return tuple(EventFile(file.name, file.stat().st_size) for file in event_files(directory))


def _from_events(directory: Path) -> SummaryIndex:
    try:
        from tensorboard.backend.event_processing import (  # type: ignore[import-untyped]
            event_accumulator,
        )
    except ImportError:
        raise SummaryError(
            f"{directory} has event files but no {INDEX_FILE}; reading them needs tensorboard: "
            "pip install 'sonde[summary]'",
            slug="extra-missing",
        ) from None
    everything = {"scalars": 0, "histograms": 0, "images": 0, "tensors": 0}
    events = event_accumulator.EventAccumulator(str(directory), size_guidance=everything).Reload()
    index = SummaryIndex(status="unknown")
    tags = events.Tags()
    for tag in tags["scalars"]:
        for event in events.Scalars(tag):
            index.note_scalar(tag, event.step, event.value)
    for kind, name, read in (
        ("histograms", "histograms", events.Histograms),
        ("images", "images", events.Images),
        ("texts", "tensors", events.Tensors),
    ):
        for tag in tags[name]:
            for event in read(tag):
                index.note(kind, tag, event.step)
    index.graph = "operators" if tags["graph"] else ""
    return index
