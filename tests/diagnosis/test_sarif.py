"""SARIF: what the schema requires, lines of source code, levels by status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.diagnosis.made import uncleared

from sonde.core.finding import EvidenceStatus, Finding
from sonde.core.graph import Source
from sonde.diagnosis.catalogue import diagnose
from sonde.diagnosis.rule import finding
from sonde.diagnosis.sarif import as_sarif

ROOT = Path("/home/me")


def document(findings: list[Finding], root: Path = ROOT) -> dict[str, Any]:
    made = as_sarif(findings, "1.2.3", root)
    loaded: dict[str, Any] = json.loads(json.dumps(made, allow_nan=False))
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


def test_no_findings_give_a_run_without_results() -> None:
    assert document([])["runs"][0]["results"] == []
