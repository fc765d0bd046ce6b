"""The description of the API, made from the endpoints and the wire types."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

import sonde
from sonde.server.endpoint import Endpoint
from sonde.server.source import NpyFile
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
    "description": "Where the server was started with a token; a browser has a cookie instead.",
}


@lru_cache(maxsize=1)
def openapi(endpoints: tuple[Endpoint, ...], prefix: str) -> dict[str, Any]:
    """OpenAPI 3.1 of the endpoints below ``prefix``."""
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
                "What the debugger's page and sonde ctl use. Numbers that may be NaN or infinite "
                "are texts then. Changes are announced on the WebSocket "
                f"{prefix}/events, one Event a message."
            ),
        },
        "paths": paths,
        "security": [{"token": []}, {}],
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
            "default": _json("What was wrong", schemas[Problem]),
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
    return {"200": _json("Fine", schemas[endpoint.answer])}


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


def _query_parameters(query: type[Plain]) -> list[dict[str, Any]]:
    _, components = msgspec.json.schema_components([query], ref_template=_REFERENCE)
    schema = components[query.__name__]
    required = schema.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in required, "schema": each}
        for name, each in schema.get("properties", {}).items()
    ]


def openapi_page(description: dict[str, Any]) -> str:
    """The description as one page without scripts."""
    parts = [_HEAD, f"<h1>Sonde {html.escape(description['info']['version'])}: HTTP API</h1>"]
    parts.append(f"<p>{html.escape(description['info']['description'])}</p>")
    parts.append('<p><a href="openapi.json">openapi.json</a></p>')
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            parts.append(_operation_html(path, method, operation))
    parts.append("<h2>Types</h2>")
    for name, schema in description["components"]["schemas"].items():
        parts.append(_type_html(name, schema))
    return "\n".join(parts)


def _operation_html(path: str, method: str, operation: dict[str, Any]) -> str:
    title = f"<b class={method}>{method.upper()}</b> <code>{html.escape(path)}</code>"
    lines = [
        f"<section><h3>{title}</h3>",
        f"<p>{html.escape(operation['summary'])}</p>",
    ]
    if operation["parameters"]:
        lines.append("<table>")
        for each in operation["parameters"]:
            kind = _kind(each["schema"]) + (", required" if each["required"] else "")
            lines.append(f"<tr><td><code>{each['name']}</code></td><td>{kind}</td></tr>")
        lines.append("</table>")
    body = operation.get("requestBody")
    if body is not None:
        lines.append(f"<p>Body: {_kind(body['content']['application/json']['schema'])}</p>")
    for status, answer in operation["responses"].items():
        schema = answer.get("content", {}).get("application/json", {}).get("schema")
        what = _kind(schema) if schema is not None else html.escape(answer["description"])
        lines.append(f"<p>{'Else' if status == 'default' else status}: {what}</p>")
    return "\n".join([*lines, "</section>"])


def _type_html(name: str, schema: dict[str, Any]) -> str:
    rows = [
        f"<tr><td><code>{html.escape(field)}</code></td><td>{_kind(each)}</td></tr>"
        for field, each in schema.get("properties", {}).items()
    ]
    text = html.escape(schema.get("description", "")).replace("``", "")
    return (
        f'<section id="{name}"><h3>{name}</h3><p>{text}</p><table>{"".join(rows)}</table></section>'
    )


def _kind(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f'<a href="#{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(_kind(each) for each in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(
            f"<code>{html.escape(json.dumps(each))}</code>" for each in schema["enum"]
        )
    if schema.get("type") == "array":
        items = schema.get("items") or {"type": "values"}
        return f"list of {_kind(items) if isinstance(items, dict) else 'values'}"
    text = html.escape(str(schema.get("type", "any")))
    if schema.get("default") not in (None, "", [], {}):
        text += f" = {html.escape(json.dumps(schema['default']))}"
    return text


_HEAD: Final = """<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>Sonde: HTTP API</title>
<style>
:root { color-scheme: light dark }
body { font: 14px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em }
section { border-top: 1px solid #8884; padding: .3em 0 }
h3 { margin: .4em 0; font-size: 15px; font-weight: 500 }
p { margin: .3em 0 }
table { border-collapse: collapse; margin: .3em 0 }
td { padding: .1em 1.2em .1em 0; vertical-align: top }
.get { color: #1a7f5a } .post { color: #b06000 } .put { color: #6a4fc8 } .delete { color: #c0392b }
</style>"""
