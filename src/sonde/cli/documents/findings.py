"""Documents of faults: errors of commands, findings, source lines."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from sonde.core.finding import EvidenceStatus, Severity

Number = float | str
"""A number; NaN and infinities are texts."""


class Document(msgspec.Struct, forbid_unknown_fields=True):
    """Base of what ``--json`` prints."""


class ErrorFields(Document):
    """``slug`` is a heading of docs/messages.md; null if the user interrupted the command."""

    slug: str | None
    message: str
    exit_code: int


class ErrorDocument(Document):
    """An error that ended the command; every command may print it."""

    error: ErrorFields


class LineDocument(Document):
    """A line of the user's code; ``library``: where in a library the op ran, if it ran there."""

    file: str
    line: int
    function: str
    code: str
    library: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class FindingDocument(Document):
    """A finding of a diagnosis; ``evidence`` has what was measured, by name."""

    kind: str
    detail: str
    status: EvidenceStatus
    message: str
    where: list[str]
    step: int | None
    evidence: dict[str, Any]
    advice: str


class LocatedFinding(FindingDocument):
    """A finding with its source lines, the most exact first."""

    lines: list[LineDocument]


class FindingsDocument(Document):
    """``sonde diagnose`` and ``sonde ranks``: findings, causes first."""

    findings: list[FindingDocument]


class ReplayFinding(Document):
    """An answer of ``sonde replay``."""

    rule: str
    severity: Severity
    status: EvidenceStatus
    message: str
    op: str | None
    source: LineDocument | None
    evidence: dict[str, Any]


class ReplayDocument(Document):
    """``sonde replay``: ``network`` says how the code of the network was found."""

    step: int
    rank: int
    directory: str
    network: str
    trigger: str | None
    findings: list[ReplayFinding]


class VerifyDocument(Document):
    """``sonde verify``: does the trigger of a captured step still fire with the changed code?"""

    verdict: Literal["fixed", "still there"]
    trigger: str
    loss: Number | None
    grad_norm: Number | None
