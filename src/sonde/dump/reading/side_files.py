"""The JSON files of a dump: metadata, kernel arguments, ``overflow.json``, ``findings.json``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from sonde.core.coverage import Gap, gaps_from_json
from sonde.core.errors import DumpError
from sonde.core.finding import Finding, from_fields, lines_of
from sonde.core.graph import Source
from sonde.dump.bounded_file import read_bytes

T = TypeVar("T")

_MAX_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class DumpMetadata:
    """The program that made a dump (versions, device) and the configuration it had."""

    config: dict[str, Any]
    dump_config: dict[str, Any]


@dataclass(frozen=True, slots=True)
class OverflowEntry:
    """One op of ``overflow.json``: it produced a non-finite value, or only propagated one.

    ``origin`` is the producer a carrier's value comes from (``from`` in the file), in the step
    ``origin_step`` if that is an earlier one. ``by_argument``: a producer whose arguments ask
    for infinities, such as ``value=-inf``. ``inputs`` and ``outputs`` are the statistics of each
    tensor, as in the file.
    """

    op: str
    role: Literal["producer", "carrier"]
    phase: str
    source: Source | None
    inputs: tuple[dict[str, Any], ...]
    outputs: tuple[dict[str, Any], ...]
    origin: str | None
    origin_step: int | None
    by_argument: str | None


@dataclass(frozen=True, slots=True)
class OverflowVerdict:
    """The ``overflow.json`` of a rank: the verdict, the sentence about the first fault (empty
    without one), and its op, step, line, cause and advice. ``explained_by``: the kind of the
    diagnosis' finding that explains the fault, or empty."""

    verdict: str
    title: str
    text: str
    op: str
    step: int | None
    source: Source | None
    advice: str
    cause: str = ""
    explained_by: str = ""

    def finding(self, rank: int | None) -> Finding | None:
        """The fault as a finding; None if there is none. ``rank``: None if there is only one."""
        if self.verdict != "fault":
            return None
        return Finding(
            "non-finite-origin",
            "error",
            f"{self.title}: {self.cause}" if self.cause else self.title,
            status="established",
            source=self.source,
            advice=self.advice,
            op=self.op or None,
            rank=rank,
            step=self.step,
        )

    def is_told_by(self, found: Finding) -> bool:
        """Whether ``found`` is the same fault: it explains this one, and is at the same line."""
        lines = {(each.file, each.line) for each in lines_of(found)}
        here = None if self.source is None else (self.source.file, self.source.line)
        return found.rule == self.explained_by and here in lines


@dataclass(frozen=True, slots=True)
class StoredDiagnosis:
    """The ``findings.json`` of a rank: what was found in ``steps`` steps, causes first."""

    steps: int
    findings: tuple[Finding, ...]


def read_findings(path: Path) -> StoredDiagnosis:
    """A ``findings.json``; DumpError if it is not one."""
    found = read_json(path)
    try:
        return StoredDiagnosis(int(found["steps"]), tuple(map(from_fields, found["findings"])))
    except (TypeError, KeyError, ValueError) as error:
        raise DumpError(f"{path}: not findings: {error}", slug="json-file") from None


def read_json(path: Path) -> Any:
    """The contents of a JSON file; DumpError, with the place, if it cannot be read."""
    try:
        return json.loads(read_bytes(path, _MAX_BYTES, slug="json-file"))
    except (ValueError, RecursionError) as error:
        raise DumpError(f"{path}: not JSON: {error}", slug="json-file") from None


def read_gaps(path: Path) -> tuple[Gap, ...]:
    """What an ``observation.json`` says was not observed; nothing without the file, which other
    programs and a process that was killed do not write."""
    if not path.is_file():
        return ()
    document = read_json(path)
    if not isinstance(document, dict):
        raise DumpError(f"{path}: not an object", slug="json-file")
    return gaps_from_json(document)


def read_overflow(path: Path) -> tuple[OverflowEntry, ...]:
    """The ops of an ``overflow.json``, in execution order; DumpError if it is not one."""
    entries = read_json(path)
    if not isinstance(entries, list):
        raise DumpError(f"{path}: not a list of ops", slug="json-file")
    return tuple(_entry(path, number, entry) for number, entry in enumerate(entries))


def read_verdict(path: Path) -> OverflowVerdict:
    """The ``overflow.json`` of a rank; DumpError if it is not one."""
    found = read_json(path)
    if not isinstance(found, dict) or not isinstance(found.get("verdict"), str):
        raise DumpError(f"{path}: not a verdict on a run", slug="json-file")
    headline, origin = _object(found.get("headline")), _object(found.get("origin"))
    own_cause, explaining = _object(origin.get("cause")), _object(found.get("finding"))
    cause = explaining or own_cause
    return OverflowVerdict(
        found["verdict"],
        str(headline.get("title") or ""),
        str(headline.get("text") or ""),
        str(origin.get("op") or ""),
        _of_type(origin.get("step"), int),
        _source(origin.get("source")),
        str(cause.get("advice") or ""),
        str(own_cause.get("text") or ""),
        str(explaining.get("kind") or ""),
    )


def _object(given: Any) -> dict[str, Any]:
    return given if isinstance(given, dict) else {}


def _entry(path: Path, number: int, entry: Any) -> OverflowEntry:
    if (
        not isinstance(entry, dict)
        or not isinstance(entry.get("op"), str)
        or entry.get("role") not in ("producer", "carrier")
    ):
        raise DumpError(f"{path}: entry {number} is not an op with a role", slug="json-file")
    return OverflowEntry(
        entry["op"],
        cast(Literal["producer", "carrier"], entry["role"]),
        str(entry.get("phase") or ""),
        _source(entry.get("source")),
        _tensors(entry.get("inputs")),
        _tensors(entry.get("outputs")),
        _of_type(entry.get("from"), str),
        _of_type(entry.get("from_step"), int),
        _of_type(entry.get("by_argument"), str),
    )


def _of_type(value: object, kind: type[T]) -> T | None:
    return value if isinstance(value, kind) else None


def _source(source: Any) -> Source | None:
    if not isinstance(source, dict):
        return None
    return Source(
        str(source.get("file", "")),
        _of_type(source.get("line"), int) or 0,
        str(source.get("function", "")),
        str(source.get("code", "")),
        _source(source.get("library")),
    )


def _tensors(tensors: Any) -> tuple[dict[str, Any], ...]:
    found = tensors if isinstance(tensors, list) else []
    return tuple(tensor for tensor in found if isinstance(tensor, dict))


def read_net_name(path: Path) -> str:
    """The name of the network in the configuration of a dump, or the default name."""
    try:
        content = read_json(path) if path.is_file() else None
    except DumpError:
        content = None
    common = content.get("common_dump_settings") if isinstance(content, dict) else None
    name = common.get("net_name") if isinstance(common, dict) else None
    return name if isinstance(name, str) and name else "Net"
