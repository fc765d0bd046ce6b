"""Validates what a command printed against the schemas in ``docs/schemas``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args, get_origin

import jsonschema

from sonde.cli.documents.schemas import DOCUMENTS

SCHEMAS = Path(__file__).parents[3] / "docs" / "schemas"


def validated(command: str, text: str) -> Any:
    """The document in ``text``, which must be nothing but one document of this command."""
    document = json.loads(text, parse_constant=lambda word: _refuse(word))
    problems = [_problem(document, kind) for kind in DOCUMENTS[command]]
    assert None in problems, f"sonde {command} printed none of its documents: {problems}"
    return document


def of_error(text: str) -> dict[str, Any]:
    """The fields of the error document in ``text``."""
    document = json.loads(text)
    jsonschema.validate(document, _schema("ErrorDocument"))
    fields: dict[str, Any] = document["error"]
    return fields


def _problem(document: Any, kind: Any) -> str | None:
    """Why it is not a document of this kind; None if it is."""
    if get_origin(kind) is list:
        (item,) = get_args(kind)
        if not isinstance(document, list):
            return "not a list"
        if not isinstance(item, type):
            return None if all(isinstance(row, dict) for row in document) else "not rows"
        return next(filter(None, (_problem(each, item) for each in document)), None)
    try:
        jsonschema.validate(document, _schema(kind.__name__))
    except jsonschema.ValidationError as error:
        return f"{kind.__name__}: {error.json_path}: {error.message[:300]}"
    return None


def _schema(name: str) -> Any:
    return json.loads((SCHEMAS / f"{name}.json").read_text())


def _refuse(word: str) -> Any:
    raise AssertionError(f"{word} is not JSON")
