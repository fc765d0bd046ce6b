"""Documents of the debugger's commands, and of those that set Sonde up."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from sonde.cli.documents.findings import Document
from sonde.wire.api import RunView
from sonde.wire.questions import Summary, Table


class AddressesDocument(Document):
    """``sonde debug``, ``sonde serve`` and ``sonde view``, once the page can be opened: where it
    is, here and from other machines, and where trainings connect."""

    page: str
    elsewhere: str | None
    rank_port: int | None
    fingerprint: str | None
    host: str | UnsetType | None = UNSET


class RunsDocument(Document):
    """``sonde ctl status``."""

    runs: list[RunView]


class PageAddressDocument(Document):
    """``sonde ctl address``; the address has the token."""

    address: str


class TensorDocument(Document):
    """``sonde ctl tensor``; ``table`` has the elements of ``--index``."""

    summary: Summary
    table: Table | UnsetType = UNSET


class RemovedWatchpointDocument(Document):
    """``sonde ctl watch remove``."""

    removed: int


class EnabledDocument(Document):
    """``sonde enable``: the file that was written."""

    path: str
    was_enabled: bool


class DisabledDocument(Document):
    """``sonde disable``: the files that were removed."""

    removed: list[str]


class SiteFileDocument(Document):
    path: str
    is_current: bool


class VariableProblem(Document):
    slug: str
    message: str


class StatusDocument(Document):
    """``sonde status``: what is enabled, and what the environment variables would do."""

    files: list[SiteFileDocument]
    is_enabled: bool
    variables: dict[str, str]
    effects: list[str]
    problems: list[VariableProblem]


class FoundEntry(Document):
    document: str
    says: str
    how: str


class FoundDocument(Document):
    """``sonde find``."""

    items: list[FoundEntry]


class SkillDocument(Document):
    """``sonde skill``: the file that was written, null if it was only printed, and its text."""

    path: str | None
    text: str


class ListedTrialDocument(Document):
    """A trial of ``sonde tune``; ``course`` has pairs of a step and a value."""

    number: int
    state: str
    value: float | None
    parameters: dict[str, Any]
    seconds: float | None
    started: str
    reason: str
    origin: dict[str, Any] | None
    command: str
    directory: str
    course: list[tuple[int, float]]


class StudyDocument(Document):
    """``sonde tune``, and ``sonde show`` for its directory."""

    path: str
    study: str
    storage: str
    target: str
    goal: str
    best: int | None
    trials: list[ListedTrialDocument]
    parameters: list[dict[str, Any]]
    importance: list[tuple[str, float]]
    search: dict[str, Any]
