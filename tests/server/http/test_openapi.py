"""The OpenAPI document is complete, and so is the page about messages."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.serving_in_thread import Server, serving

from sonde.server.app import ENDPOINTS, PREFIX
from sonde.server.http.openapi import openapi

WIRE = (Path(__file__).parents[3] / "docs" / "wire.md").read_text()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as found:
        yield found


def test_every_endpoint_is_described(server: Server) -> None:
    described = server.get("/openapi.json")
    assert described["openapi"] == "3.1.0"
    for endpoint in ENDPOINTS:
        operation = described["paths"][PREFIX + endpoint.path][endpoint.method.lower()]
        assert operation["summary"] == endpoint.summary
        names = set(re.findall(r"\{(\w+)\}", endpoint.path))
        assert {p["name"] for p in operation["parameters"] if p["in"] == "path"} == names
    identifiers = [o["operationId"] for path in described["paths"].values() for o in path.values()]
    assert len(identifiers) == len(set(identifiers))


def test_every_reference_leads_somewhere() -> None:
    described = openapi(ENDPOINTS, PREFIX)
    known = described["components"]["schemas"]
    for name in re.findall(r"#/components/schemas/(\w+)", str(described)):
        assert name in known


def test_parameters_have_their_types() -> None:
    table = openapi(ENDPOINTS, PREFIX)["paths"][f"{PREFIX}/runs/{{run}}/tensor/table"]["get"]
    found = {each["name"]: each for each in table["parameters"]}
    assert found["op"]["required"]
    assert not found["step"]["required"]
    assert found["io"]["schema"]["enum"] == ["input", "output"]


def test_the_page_about_messages_lists_every_route() -> None:
    for endpoint in ENDPOINTS:
        path = endpoint.path.replace("{number}", "{id}")
        assert f"{endpoint.method} {path}" in WIRE, f"{endpoint.method} {path}"
