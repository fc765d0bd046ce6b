"""SARIF: what the schema requires, lines of source code, levels by status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import FormatChecker, validate
from tests.diagnosis.made import uncleared

from sonde.core.finding import EvidenceStatus, Finding
from sonde.core.graph import Source
from sonde.diagnosis.catalogue import diagnose, rules
from sonde.diagnosis.rule import finding
from sonde.diagnosis.sarif import as_sarif

ROOT = Path("/home/me")
TEXT = {"type": "string", "minLength": 1}
MESSAGE = {"type": "object", "required": ["text"], "properties": {"text": TEXT}}


def of(required: str = "", **properties: Any) -> dict[str, Any]:
    """The schema of an object that has no other properties than these."""
    return {
        "type": "object",
        "required": required.split(),
        "properties": properties,
        "additionalProperties": False,
    }


def several(items: dict[str, Any], *, unique: bool = False) -> dict[str, Any]:
    return {"type": "array", "items": items, "uniqueItems": unique}


ARTIFACT = of("uri", uri={"type": "string", "format": "uri-reference"}, uriBaseId=TEXT)
REGION = of("startLine", startLine={"type": "integer", "minimum": 1}, snippet=of("text", text=TEXT))
LOCATION = of(
    physicalLocation=of("artifactLocation", artifactLocation=ARTIFACT, region=REGION),
    logicalLocations=several(of("name", name=TEXT), unique=True),
)
RESULT = of(
    "message",
    ruleId=TEXT,
    ruleIndex={"type": "integer", "minimum": 0},
    level={"enum": ["none", "note", "warning", "error"]},
    message=MESSAGE,
    locations=several(LOCATION),
    relatedLocations=several(LOCATION, unique=True),
    properties={"type": "object"},
)
RULE = of("id", id=TEXT, name=TEXT, help=MESSAGE)
RUN = of(
    "tool",
    tool=of("driver", driver=of("name", name=TEXT, version=TEXT, rules=several(RULE, unique=True))),
    originalUriBaseIds={"type": "object", "additionalProperties": ARTIFACT},
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
    results=several(RESULT),
)
SCHEMA = of(
    "version runs",
    **{"$schema": {"type": "string", "format": "uri"}, "version": {"const": "2.1.0"}},
    runs=several(RUN),
)
"""The part of SARIF 2.1.0 that Sonde writes, as its sections 3.13 to 3.30 describe it."""


def document(findings: list[Finding], root: Path = ROOT) -> dict[str, Any]:
    made = as_sarif(findings, "1.2.3", root)
    loaded: dict[str, Any] = json.loads(json.dumps(made, allow_nan=False))
    validate(loaded, SCHEMA, format_checker=FormatChecker())
    for result in loaded["runs"][0]["results"]:
        assert loaded["runs"][0]["tool"]["driver"]["rules"][result["ruleIndex"]]
    return loaded


def test_the_document_has_what_the_schema_requires() -> None:
    made = document(diagnose(uncleared(20, 19)))
    assert made["version"] == "2.1.0"
    assert made["$schema"].endswith("sarif-2.1.0.json")
    (run,) = made["runs"]
    driver = run["tool"]["driver"]
    assert (driver["name"], driver["version"]) == ("Sonde", "1.2.3")
    (result,) = run["results"]
    assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "missing-zero-grad"
    assert result["message"]["text"]
    assert result["properties"]["evidence"]["steps_with_old_gradients"] == 19


def test_a_result_has_the_line_of_its_finding() -> None:
    result = document(diagnose(uncleared(20, 19)))["runs"][0]["results"][0]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "train.py", "uriBaseId": "%SRCROOT%"}
    assert place["region"] == {"startLine": 7, "snippet": {"text": "loss.backward()"}}


def test_a_file_elsewhere_has_its_whole_address_and_further_lines_are_related() -> None:
    where = [Source("/opt/a b.py", 3, "f", ""), Source("/home/me/train.py", 9, "g", "g()"), "layer"]
    made = finding(
        "left-in-eval", "supported", "text", step=1, where=where, evidence={}, advice="do"
    )
    result = document([made])["runs"][0]["results"][0]
    first = result["locations"][0]
    assert first["physicalLocation"]["artifactLocation"] == {"uri": "file:///opt/a%20b.py"}
    assert {"name": "layer"} in first["logicalLocations"]
    (second,) = result["relatedLocations"]
    assert second["physicalLocation"]["region"]["startLine"] == 9


@pytest.mark.parametrize(
    ("status", "level"),
    [("established", "error"), ("supported", "warning"), ("hypothesis", "note")],
)
def test_the_level_follows_the_status(status: EvidenceStatus, level: str) -> None:
    made = Finding("x", "info", "text", status=status, evidence={"loss": float("nan")})
    result = document([made])["runs"][0]["results"][0]
    assert result["level"] == level
    assert result["locations"] == []


def test_findings_of_all_rules_are_valid_also_with_repeated_places() -> None:
    line = Source("/home/me/train.py", 0, "f", "")
    places = [line, line, "layer", "layer", Source("/opt/\u00e4 b.py", 3, "f", "g()"), line]
    made = [
        finding(rule, "supported", "text", step=1, where=where, evidence={}, advice="do")
        for rule in rules()
        for where in (places, ["layer", "layer"], [])
    ]
    assert len(document(made)["runs"][0]["results"]) == 3 * len(rules())


def test_no_findings_give_a_run_without_results() -> None:
    assert document([])["runs"][0]["results"] == []
