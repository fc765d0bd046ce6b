"""The files of the page, and that every answer is plain JSON."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.server.serving_in_thread import Server, serving

from sonde.server import app
from sonde.testing.fake_rank import FakeRank

LOG = quote("Default/network-Net/loss-Loss/log-op0")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html><title>the page</title>")
    (tmp_path / "assets" / "index-abc.js").write_text("let x = 1;")
    (tmp_path / "icon.svg").write_text("<svg/>")
    monkeypatch.setattr(app, "_PAGE", tmp_path)
    with serving() as found:
        yield found


def test_the_page_and_its_files_are_served(server: Server) -> None:
    status, headers, data = server.open("GET", "/")
    assert (status, b"the page" in data) == (200, True)
    assert headers["cache-control"] == "no-cache"
    assert "script-src 'self'" in headers["content-security-policy"]
    _, headers, data = server.open("GET", "/assets/index-abc.js")
    assert data == b"let x = 1;"
    assert headers["content-type"] == "text/javascript; charset=utf-8"
    assert "immutable" in headers["cache-control"]
    assert server.open("GET", "/icon.svg")[1]["content-type"] == "image/svg+xml"


def test_an_unknown_path_gets_the_page_and_a_missing_asset_is_not_found(server: Server) -> None:
    for path in ("/runs/x", "/anything/at/all", "/.hidden"):
        assert b"the page" in server.open("GET", path)[2]
    assert server.open("GET", "/assets/index-old.js")[0] == 404
    status, problem = server.ask("GET", "/nothing")
    assert (status, problem["slug"]) == (404, "no-such-file")
    assert server.open("POST", "/")[0] == 405


@pytest.mark.parametrize(
    "path", ["/docs", "/api", "/api/", "/api/v1", "/api/v1/docs", "/openapi.json"]
)
def test_short_addresses_lead_to_the_description(server: Server, path: str) -> None:
    status, headers, data = server.open("GET", path)
    assert (status, headers["content-type"]) == (200, "application/json")
    assert b"/api/v1/runs/{run}/hits" in data


def test_an_unknown_route_of_the_api_is_not_found(server: Server) -> None:
    for path in ("/api/v2/runs", "/api/nothing", "/api/v1/nothing"):
        status, _, data = server.open("GET", path)
        assert (status, json.loads(data)["slug"]) == (404, "no-such-file")


def test_without_the_built_page_a_message_explains_it(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "_PAGE", tmp_path / "none")
    status, _, data = server.open("GET", "/")
    assert (status, b"sonde ctl status" in data) == (200, True)


def test_answers_with_nan_in_them_are_json(server: Server) -> None:
    def refuse(text: str) -> Any:
        raise AssertionError(f"{text} is not JSON")

    rank = FakeRank(server.rank_port).start()
    server.post("/runs/run-1/watchpoints", {"name": "x", "conditions": [{"id": "tensor_overflow"}]})
    server.control("run-1", "continue")
    seen = 0
    for path in (
        "/runs",
        "/runs/run-1/hits",
        "/runs/run-1/loss",
        f"/runs/run-1/op/tensors?name={LOG}",
        f"/runs/run-1/tensor/summary?op={LOG}",
        f"/runs/run-1/tensor/table?op={LOG}",
        f"/runs/run-1/tensor/heat?op={LOG}",
        f"/runs/run-1/tensor/compare?op={LOG}&with_step=1",
        f"/runs/run-1/tensor/curve?op={LOG}",
        "/conditions",
    ):
        status, _, data = server.open("GET", f"/api/v1{path}")
        assert status == 200
        json.loads(data, parse_constant=refuse)
        seen += b'"nan"' in data
    assert seen >= 4
    rank.close()
