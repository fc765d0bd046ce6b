"""Findings as SARIF 2.1.0, the format in which tools show results at lines of source code."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sonde.core.finding import Finding, as_fields, lines_of
from sonde.core.graph import Source
from sonde.diagnosis.catalogue import rules

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {"established": "error", "supported": "warning", "hypothesis": "note"}
_ROOT = "%SRCROOT%"


def as_sarif(findings: Sequence[Finding], version: str, root: Path) -> dict[str, Any]:
    """The document for ``findings`` of Sonde ``version``; files below ``root`` are named relative
    to it. The level follows the status; step, evidence and status are properties of a result."""
    kinds = list(dict.fromkeys(each.rule for each in findings))
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "Sonde",
                        "version": version,
                        "rules": [_rule(kind) for kind in kinds],
                    }
                },
                "originalUriBaseIds": {_ROOT: {"uri": f"{root.as_uri().rstrip('/')}/"}},
                "columnKind": "unicodeCodePoints",
                "results": [_result(each, kinds.index(each.rule), root) for each in findings],
            }
        ],
    }


def _rule(kind: str) -> dict[str, Any]:
    rule = rules().get(kind)
    described: dict[str, Any] = {"id": kind, "name": "".join(kind.title().split("-"))}
    if rule is not None:
        described["help"] = {"text": f"Silent: {rule.silent}"}
    return described


def _result(found: Finding, index: int, root: Path) -> dict[str, Any]:
    fields = as_fields(found)
    lines = lines_of(found)
    names = [each for each in found.places if ".py:" not in each]
    result: dict[str, Any] = {
        "ruleId": found.rule,
        "ruleIndex": index,
        "level": LEVELS[found.status],
        "message": {"text": f"{found.message}. {found.advice}" if found.advice else found.message},
        "locations": [_location(lines[0], root, names)] if lines else [],
        "properties": {name: fields[name] for name in ("status", "detail", "step", "evidence")},
    }
    if not lines and names:
        result["locations"] = [{"logicalLocations": [{"name": name} for name in names]}]
    if lines[1:]:
        result["relatedLocations"] = [_location(each, root, []) for each in lines[1:]]
    return result


def _location(source: Source, root: Path, names: Sequence[str]) -> dict[str, Any]:
    region: dict[str, Any] = {"startLine": max(1, source.line)}
    if source.code:
        region["snippet"] = {"text": source.code}
    place: dict[str, Any] = {
        "physicalLocation": {"artifactLocation": _artifact(source.file, root), "region": region}
    }
    if names:
        place["logicalLocations"] = [{"name": name} for name in names]
    return place


def _artifact(file: str, root: Path) -> dict[str, str]:
    path = Path(os.path.abspath(file))
    if not path.is_relative_to(root):
        return {"uri": path.as_uri()}
    return {"uri": Path(os.path.relpath(path, root)).as_posix(), "uriBaseId": _ROOT}
