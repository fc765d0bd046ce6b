"""The health page's event files: scalars, histograms and pictures of TensorBoard logs."""

from __future__ import annotations

from sonde.wire.health import LineageFact
from sonde.wire.numbers import Integer
from sonde.wire.shapes import Plain


class SummaryLog(Plain, frozen=True):
    """A directory with event files. ``name``: its path below the directory that was given.
    ``scalars``, ``histograms`` and ``images``: tags. ``problems``: files that are damaged."""

    number: Integer
    name: str
    path: str
    status: str
    last_step: Integer | None
    scalars: tuple[str, ...]
    histograms: tuple[str, ...]
    images: tuple[str, ...]
    texts: tuple[LineageFact, ...]
    lineage: tuple[LineageFact, ...]
    problems: tuple[str, ...]


class SummaryLogs(Plain, frozen=True):
    """All logs of a server, in the order of their names."""

    logs: tuple[SummaryLog, ...]


class TagHistograms(Plain, frozen=True):
    """Histograms of a tag between common ``edges``: for each of ``steps`` the ``counts`` of each
    bin. Of very many steps some are left out."""

    tag: str
    steps: tuple[Integer, ...]
    edges: tuple[float, ...]
    counts: tuple[tuple[float, ...], ...]


class TagPicture(Plain, frozen=True):
    """The picture ``at`` a place of ``steps``; ``data`` is Base64."""

    tag: str
    steps: tuple[Integer, ...]
    at: Integer
    media_type: str
    data: str
