"""Describes the HTTP API as OpenAPI 3.1, from the endpoints and the wire types."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

import sonde
from sonde.server.http.endpoint import Endpoint
from sonde.server.run import NpyFile
from sonde.wire.api import Event, Problem
from sonde.wire.shapes import Plain

_REFERENCE: Final = "#/components/schemas/{name}"
_PARAMETER: Final = re.compile(r"\{(\w+)\}")
_DESCRIPTIONS: Final = {
    "run": "The id of a run, as /runs lists it.",
    "number": "The number of a watchpoint.",
}


_TOKEN: Final = {
    "type": "http",
    "scheme": "bearer",
    "description": "The token of the server; a browser sends a cookie instead.",
}


@lru_cache(maxsize=1)
def openapi(endpoints: tuple[Endpoint, ...], prefix: str) -> dict[str, Any]:
    """The OpenAPI document of the endpoints below ``prefix``."""
    kinds = _kinds(endpoints)
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REFERENCE)
    of_kind = dict(zip(kinds, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        described = _operation(endpoint, of_kind)
        paths.setdefault(prefix + endpoint.path, {})[endpoint.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Sonde",
            "version": sonde.__version__,
            "description": (
                "The interface of the debugger's page and of sonde ctl. A number that is NaN or "
                "infinite is sent as text. Changes are announced on the WebSocket "
                f"{prefix}/events, one Event per message."
            ),
        },
        "paths": paths,
        "security": [{"token": []}],
        "components": {"schemas": components, "securitySchemes": {"token": _TOKEN}},
    }


def _kinds(endpoints: Sequence[Endpoint]) -> list[type[Plain]]:
    found: dict[type[Plain], None] = {Problem: None, Event: None}
    for endpoint in endpoints:
        for kind in (endpoint.answer, endpoint.body):
            if kind is not None and issubclass(kind, Plain):
                found[kind] = None
    return list(found)


def _operation(endpoint: Endpoint, schemas: dict[type[Plain], dict[str, Any]]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "summary": endpoint.summary,
        "operationId": getattr(endpoint.handler, "__name__", "handler"),
        "parameters": [*_path_parameters(endpoint.path), *_query_parameters(endpoint.query)],
        "responses": {
            **_answer(endpoint, schemas),
            "default": _json("The error", schemas[Problem]),
        },
    }
    if endpoint.body is not None:
        content = {"application/json": {"schema": schemas[endpoint.body]}}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _answer(
    endpoint: Endpoint, schemas: dict[type[Plain], dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    if endpoint.answer is None:
        return {"204": {"description": "Done"}}
    if endpoint.answer is NpyFile:
        content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
        return {"200": {"description": "An .npy file", "content": content}}
    assert issubclass(endpoint.answer, Plain)
    return {"200": _json("Success", schemas[endpoint.answer])}


def _json(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _path_parameters(path: str) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": _DESCRIPTIONS[name],
            "schema": {"type": "integer" if name == "number" else "string"},
        }
        for name in _PARAMETER.findall(path)
    ]


def _query_parameters(query: type[Plain] | None) -> list[dict[str, Any]]:
    if query is None:
        return []
    _, components = msgspec.json.schema_components([query], ref_template=_REFERENCE)
    schema = components[query.__name__]
    required = schema.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in required, "schema": each}
        for name, each in schema.get("properties", {}).items()
    ]
