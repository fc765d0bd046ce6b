"""What the server answers is what its own description says, on every route."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest
from tests.server.comparison.test_comparison import two
from tests.server.http.schema import Schemas
from tests.server.serving_in_thread import Server, serving
from tests.server.written_dumps import LOG as DUMPED
from tests.trends.made_stores import MadeTraining, write_training
from torch.utils.tensorboard import SummaryWriter
from websockets.sync.client import connect

from sonde.server.app import ENDPOINTS
from sonde.server.dumps.run import DumpRun, open_dumps, start_comparison
from sonde.server.http.events import EventBroker
from sonde.testing.fake_rank import FakeRank

LOG = "Default/network-Net/loss-Loss/log-op0"
LIVE, DUMP, PAIR, STORED = "run-1", "a", "b", "stored"
DRAFT = {"name": "bad", "conditions": [{"id": "tensor_overflow"}]}
RUN = "/runs/{run}"
POINTS = f"{RUN}/watchpoints"
TENSOR = {"op": LOG}
CELL = {"statistic": "activation_rms", "layer": "net/0-Linear", "first": 0}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("dumps")
    paths: list[Path] = two(directory)
    stored = directory / STORED
    stored.mkdir()
    write_training(MadeTraining(steps=3), stored)

    def sources(broker: EventBroker) -> list[DumpRun]:
        runs = open_dumps([*paths, stored], broker)
        start_comparison(*runs[:2])
        return runs

    with SummaryWriter(str(directory / "runs")) as writer:
        writer.add_scalar("loss", 0.5, 0)
        writer.add_histogram("weights", np.arange(9.0), 0)
        writer.add_image("picture", np.zeros((3, 4, 4), np.uint8), 0)
    with serving(sources=sources, logs=[directory / "runs"]) as found:
        rank = FakeRank(found.rank_port, run=LIVE).start()
        found.wait_for(f"/runs/{LIVE}", lambda run: run["ranks"][0]["state"] == "paused")
        found.wait_for(f"/runs/{DUMP}/comparison", lambda view: view["verdict"] is not None)
        yield found
        rank.close()


# In this order: later questions find what earlier ones made. Method, path, run, query, body.
VISITS: list[tuple[str, str, str, dict[str, Any], Any]] = [
    ("GET", "/runs", "", {}, None),
    ("GET", "/conditions", "", {}, None),
    ("POST", POINTS, LIVE, {"must_match": "false"}, DRAFT),
    ("PUT", f"{POINTS}/1", LIVE, {}, {**DRAFT, "name": "worse"}),
    ("POST", f"{POINTS}/recommended", LIVE, {}, None),
    ("GET", POINTS, LIVE, {}, None),
    ("GET", f"{POINTS}/file", LIVE, {}, None),
    ("PUT", f"{POINTS}/file", LIVE, {}, {"version": 1, "watchpoints": [DRAFT]}),
    ("POST", f"{RUN}/control", LIVE, {}, {"command": "continue", "wait_seconds": 20}),
    ("POST", f"{RUN}/keep", LIVE, {}, {"ops": [LOG], "steps": 2}),
    ("POST", f"{RUN}/record", LIVE, {}, {"op": LOG, "is_on": True}),
    ("POST", f"{POINTS}/preview", LIVE, {"rank": "0"}, DRAFT),
    ("POST", f"{RUN}/measure-speed", LIVE, {}, None),
    ("GET", RUN, LIVE, {}, None),
    ("GET", f"{RUN}/hits", LIVE, {"limit": 5}, None),
    ("GET", f"{RUN}/causes", LIVE, {}, None),
    ("GET", f"{RUN}/loss", LIVE, {"after": 1}, None),
    ("GET", f"{RUN}/graph/level", LIVE, {"scope": "Default/"}, None),
    ("GET", f"{RUN}/graph/opening", LIVE, {"boxes": 20}, None),
    ("GET", f"{RUN}/graph/findings", LIVE, {"view": "model"}, None),
    ("GET", "/rule", LIVE, {"kind": "missing-zero-grad"}, None),
    ("GET", f"{RUN}/graph/level", LIVE, {"view": "model"}, None),
    ("GET", f"{RUN}/graph/scope", LIVE, {"scope": "Default/network-Net/", "view": "model"}, None),
    ("GET", f"{RUN}/graph/scopes", LIVE, {"query": "net", "view": "step"}, None),
    ("GET", f"{RUN}/graph/values", LIVE, {"statistic": "l2norm"}, None),
    ("GET", f"{RUN}/graph/tree", LIVE, {}, None),
    ("GET", f"{RUN}/nodes", LIVE, {"query": "log", "hits": "true"}, None),
    ("GET", f"{RUN}/op", LIVE, {"name": LOG}, None),
    ("GET", f"{RUN}/op/tensors", LIVE, {"name": LOG}, None),
    ("GET", f"{RUN}/sources", LIVE, {}, None),
    ("GET", f"{RUN}/code", LIVE, {"file": "/home/me/train.py", "line": 3}, None),
    ("GET", f"{RUN}/tensor/summary", LIVE, TENSOR, None),
    ("GET", f"{RUN}/tensor/table", LIVE, {**TENSOR, "index": "[0]"}, None),
    ("GET", f"{RUN}/tensor/heat", LIVE, TENSOR, None),
    ("GET", f"{RUN}/tensor/compare", LIVE, {**TENSOR, "with_step": 4}, None),
    ("GET", f"{RUN}/tensor/curve", LIVE, TENSOR, None),
    ("GET", f"{RUN}/tensor/file", LIVE, TENSOR, None),
    ("DELETE", f"{POINTS}/9", LIVE, {}, None),
    ("DELETE", RUN, LIVE, {}, None),
    ("POST", f"{RUN}/recheck", LIVE, {}, None),
    ("GET", RUN, DUMP, {}, None),
    ("POST", POINTS, DUMP, {}, DRAFT),
    ("POST", f"{RUN}/recheck", DUMP, {"wait_seconds": 20}, None),
    ("DELETE", f"{RUN}/recheck", DUMP, {}, None),
    ("GET", f"{RUN}/causes", DUMP, {}, None),
    ("GET", f"{RUN}/hits", DUMP, {}, None),
    ("GET", f"{RUN}/graph/level", DUMP, {}, None),
    ("GET", f"{RUN}/graph/values", DUMP, {"statistic": "max"}, None),
    ("GET", f"{RUN}/graph/values", DUMP, {"statistic": "distance"}, None),
    ("GET", f"{RUN}/op/tensors", DUMP, {"name": DUMPED}, None),
    ("GET", f"{RUN}/tensor/summary", DUMP, {"op": DUMPED}, None),
    ("GET", f"{RUN}/tensor/compare", DUMP, {"op": DUMPED, "with_run": PAIR}, None),
    ("GET", f"{RUN}/tensor/curve", DUMP, {"op": DUMPED}, None),
    ("GET", f"{RUN}/ranks", DUMP, {}, None),
    ("GET", f"{RUN}/health", DUMP, {}, None),
    ("GET", f"{RUN}/health", STORED, {"points": 2}, None),
    ("GET", f"{RUN}/layers", STORED, {"statistic": "activation_rms", "rows": 2}, None),
    ("GET", f"{RUN}/layers/tensors", STORED, CELL, None),
    ("GET", "/logs", "", {}, None),
    ("GET", "/logs/0/scalar", "", {"tag": "loss"}, None),
    ("GET", "/logs/0/histograms", "", {"tag": "weights"}, None),
    ("GET", "/logs/0/picture", "", {"tag": "picture"}, None),
    ("GET", f"{RUN}/ranks/tensor", DUMP, {"op": DUMPED, "merge": "one"}, None),
    ("GET", f"{RUN}/comparison", DUMP, {}, None),
    ("GET", f"{RUN}/comparison/pairs", DUMP, {"sort": "error"}, None),
    ("GET", f"{RUN}/comparison/unpaired", DUMP, {}, None),
    ("GET", f"{RUN}/comparison/marks", DUMP, {}, None),
    ("POST", f"{RUN}/control", DUMP, {}, {"command": "continue"}),
]


def template(path: str) -> str:
    """The path as it is described: a number stands for ``{number}``."""
    return re.sub(r"/\d+(?=/|$)", "/{number}", path)


def test_every_answer_is_as_it_is_described(server: Server) -> None:
    described = server.get("/openapi.json")
    schemas = Schemas(described)
    right, seen = set(), set()
    for method, path, run, query, body in VISITS:
        operation = described["paths"][f"/api/v1{template(path)}"][method.lower()]
        given = {each["name"]: each["schema"] for each in operation["parameters"]}
        assert set(query) <= set(given), (path, query)
        if "requestBody" in operation:
            kind = operation["requestBody"]["content"]["application/json"]["schema"]
            assert schemas.problems(body, kind) == [], path
        address = f"/api/v1{path.replace('{run}', run)}?{urlencode(query)}"
        data = None if body is None else json.dumps(body).encode()
        status, headers, found = server.open(method, address, data)
        answer = operation["responses"].get(str(status), operation["responses"]["default"])
        place = f"{method} {address} {status}"
        seen.add((method, template(path)))
        if "content" not in answer:
            assert found == b"", place
            right.add((method, template(path)))
            continue
        ((kind, content),) = answer["content"].items()
        assert headers["content-type"] == kind, place
        if kind == "application/json":
            assert schemas.problems(json.loads(found), content["schema"]) == [], place
        if str(status) in operation["responses"]:
            right.add((method, template(path)))
    assert seen == {(endpoint.method, endpoint.path) for endpoint in ENDPOINTS}
    # A run that is connected cannot be forgotten, and there is no watchpoint 9.
    assert seen - right == {("DELETE", RUN), ("DELETE", f"{POINTS}/{{number}}")}


def test_events_are_as_they_are_described(server: Server) -> None:
    described = server.get("/openapi.json")
    headers = {"Authorization": f"Bearer {server.token}"}
    address = f"ws://127.0.0.1:{server.port}/api/v1/events"
    with connect(address, additional_headers=headers) as socket:
        server.post(f"/runs/{LIVE}/watchpoints", DRAFT)
        event = json.loads(socket.recv(timeout=100))
    assert Schemas(described).problems(event, {"$ref": "#/components/schemas/Event"}) == []
    assert event["run"] == LIVE


def test_the_token_is_described(server: Server) -> None:
    described = server.get("/openapi.json")
    schemes = described["components"]["securitySchemes"]
    assert {name for each in described["security"] for name in each} == set(schemes)
    assert {} not in described["security"]
    assert (schemes["token"]["type"], schemes["token"]["scheme"]) == ("http", "bearer")


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        (True, {"type": "integer"}),
        ("NaN", {"type": "number"}),
        ({"a": 1}, {"type": "object", "properties": {}}),
        ({}, {"type": "object", "properties": {"a": {}}, "required": ["a"]}),
        ([1, "x"], {"type": "array", "items": {"type": "integer"}}),
        ([1], {"type": "array", "prefixItems": [{"type": "string"}], "items": False}),
        ("c", {"enum": ["a", "b"]}),
        (None, {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        ({"a": "b"}, {"type": "object", "additionalProperties": {"type": "integer"}}),
        (-1, {"type": "integer", "minimum": 0}),
    ],
)
def test_the_judge_sees_what_is_untrue(value: Any, schema: Any) -> None:
    assert Schemas({"components": {"schemas": {}}}).problems(value, schema) != []
