"""The findings of a diagnosis on the server: bounded texts, the headline, places in a graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from sonde.core.operators.patterns import parts_of
from sonde.server.graph.index import GraphIndex
from sonde.wire.api import FindingPlace, RunHeadline
from sonde.wire.shapes import DiagnosisView, EvidenceText, FindingView, Node, SourceLine

MOST_FINDINGS: Final = 50
_MOST_ENTRIES: Final = 50
_MOST_TEXT: Final = 2000
_MOST_MARKED: Final = 200
"""Ops of a line that a finding marks; a line that runs more of them says little."""


def bounded(diagnosis: DiagnosisView) -> DiagnosisView:
    """The diagnosis with lists and texts of limited length."""
    findings = tuple(map(_bounded, diagnosis.findings[:MOST_FINDINGS]))
    return msgspec.structs.replace(diagnosis, findings=findings)


def _bounded(found: FindingView) -> FindingView:
    return msgspec.structs.replace(
        found,
        kind=found.kind[:_MOST_TEXT],
        detail=found.detail[:_MOST_TEXT],
        message=found.message[:_MOST_TEXT],
        advice=found.advice[:_MOST_TEXT],
        where=_texts(found.where),
        explains=_texts(found.explains),
        evidence=tuple(
            EvidenceText(each.name[:_MOST_TEXT], each.value[:_MOST_TEXT])
            for each in found.evidence[:_MOST_ENTRIES]
        ),
        lines=found.lines[:_MOST_ENTRIES],
    )


def _texts(given: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(text[:_MOST_TEXT] for text in given[:_MOST_ENTRIES])


def finding_headline(
    diagnosis: DiagnosisView | None, rank: int, *, told_step: int | None = None
) -> RunHeadline | None:
    """The sentence about the first finding that is established; None without one. ``told_step``:
    the step that stands before the sentence, which need not name it again."""
    listed = () if diagnosis is None else diagnosis.findings
    found = next((each for each in listed if each.status == "established"), None)
    if found is None:
        return None
    since = "" if found.step in (None, told_step) else f", from step {found.step} on"
    source = found.lines[0] if found.lines else None
    return RunHeadline(
        kind="finding",
        severity="error",
        title=found.message,
        text=f"{found.message}{since}{_line_text(found.message, source)}.",
        advice=found.advice,
        rank=rank,
        step=found.step,
        source=source,
    )


def _line_text(message: str, source: SourceLine | None) -> str:
    """The line that ``message`` is about, as far as it does not name it itself."""
    if source is None:
        return ""
    place = f"{source.file.rpartition('/')[2]}:{source.line}"
    code = source.code.strip()
    if not code or f"`{code}`" in message:
        return "" if place in message else f", at {place}"
    return f": `{code}`" if place in message else f", at {place} `{code}`"


def finding_places(index: GraphIndex, diagnosis: DiagnosisView | None) -> tuple[FindingPlace, ...]:
    """Where the graph has what each finding names."""
    listed = () if diagnosis is None else diagnosis.findings
    return tuple(FindingPlace(each.kind, tuple(_paths(index, each))) for each in listed)


def findings_by_part(
    index: GraphIndex, diagnosis: DiagnosisView | None
) -> dict[int, tuple[str, ...]]:
    """The kinds of the findings about each node and, as ``~scope``, about each scope or something
    inside it."""
    found: dict[int, dict[str, None]] = {}
    for place in finding_places(index, diagnosis):
        for part in {each for path in place.paths for each in _parts(index, path)}:
            found.setdefault(part, {})[place.kind] = None
    return {part: tuple(kinds) for part, kinds in found.items()}


def _parts(index: GraphIndex, path: str) -> Iterator[int]:
    """The node or scope, and the scopes around it."""
    if path.endswith("/"):
        scope = index.scope(path)
        while scope > 0:
            yield ~scope
            scope = index.scopes[scope].parent
        return
    number = index.numbers[path]
    above = index.ancestors[:, number]
    yield from (number, *(~above[above >= 0]).tolist())


def _paths(index: GraphIndex, found: FindingView) -> list[str]:
    """The ops, parameters and modules that ``found`` names; else the ops of its lines whose types
    it names, such as ``log_softmax``; else all ops of its first line that has any."""
    named = {text for text in found.where if text in index.numbers}
    named |= set(_scopes(index, frozenset(found.where)))
    if named:
        return sorted(named)
    by_line = [_ops_of_line(index, line.file, line.line) for line in found.lines]
    typed = [op for ops in by_line for op in ops if op.type.strip("_") in found.where]
    marked = _forward_first(typed or next(filter(None, by_line), []))
    return list(dict.fromkeys(op.name for op in marked))[:_MOST_MARKED]


def _scopes(index: GraphIndex, names: frozenset[str]) -> Iterator[str]:
    """The scopes of the modules called ``names``, such as ``layers.0``; not those of gradients."""
    for scope in index.scopes:
        if not scope.path or scope.path.startswith("Gradients/"):
            continue
        parts = [each.name for each in parts_of(scope.path.rstrip("/"))]
        if len(parts) > 1 and ".".join(parts[1:]) in names:
            yield scope.path


def _ops_of_line(index: GraphIndex, file: str, line: int) -> list[Node]:
    """The ops that the line itself runs, not those of functions that it calls."""
    nodes = [index.nodes[each] for each in index.lines.get((file, line), ())]
    return [
        each
        for each in nodes
        if each.sources and (each.sources[0].file, each.sources[0].line) == (file, line)
    ]


def _forward_first(nodes: list[Node]) -> list[Node]:
    """The nodes of the forward pass, if there are any: ops of gradients have the same lines."""
    return [each for each in nodes if each.phase == "forward"] or nodes
