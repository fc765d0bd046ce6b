"""What a hostile page, other programs and senseless requests can do to the server: nothing."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest
from tests.server.serving_in_thread import Server
from tests.server.steady import is_well, serving_a_steady_rank
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from sonde.testing.fake_rank import FakeRank
from sonde.testing.sample_graph import sample_graph


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving_a_steady_rank() as found:
        yield found


# ------------------------------------------------------------------ pages of other sites


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "", "[::1", "a b"]
)
def test_a_name_pointed_at_this_machine_is_refused(server: Server, host: str) -> None:
    status, problem = server.ask("GET", "/runs", Host=host)
    assert status in (400, 403)
    assert problem is None or problem["slug"] == "foreign-host"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:1234", "LOCALHOST", "[::1]:80"])
def test_names_of_this_machine_are_taken(server: Server, host: str) -> None:
    assert server.ask("GET", "/runs", Host=host)[0] == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://["]
)
def test_a_foreign_page_cannot_change_or_read_anything(server: Server, origin: str) -> None:
    body = {"command": "terminate"}
    status, problem = server.ask("POST", "/runs/steady/control", body, Origin=origin)
    assert (status, problem["slug"]) == (403, "foreign-page")
    assert server.ask("GET", "/runs", Origin=origin)[0] == 403
    assert server.ask("DELETE", "/runs/steady", Origin=origin)[0] == 403
    assert is_well(server)


def test_our_own_page_may(server: Server) -> None:
    origin = f"http://127.0.0.1:{server.port}"
    assert server.ask("POST", "/runs/steady/keep", {"ops": ["x"]}, Origin=origin)[0] == 204


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_a_form_of_a_foreign_page_cannot_post(server: Server, kind: str) -> None:
    status, _, _ = server.open(
        "POST", "/api/v1/runs/steady/control", b'{"command": "terminate"}', Content_Type=kind
    )
    assert status == 415
    assert is_well(server)


def test_browsers_that_say_the_request_is_cross_site_are_believed(server: Server) -> None:
    assert (
        server.ask("GET", "/runs", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors")[0] == 403
    )
    status, _, _ = server.open("GET", "/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")
    assert status == 200


def test_the_event_socket_checks_the_origin(server: Server) -> None:
    address = f"ws://127.0.0.1:{server.port}/api/v1/events"
    with pytest.raises(InvalidStatus) as refusal, connect(address, origin="http://evil.example"):  # type: ignore[arg-type]
        pass
    assert refusal.value.response.status_code == 403
    own = f"http://127.0.0.1:{server.port}"
    headers = {"Authorization": f"Bearer {server.token}"}
    with connect(address, origin=own, additional_headers=headers):  # type: ignore[arg-type]
        pass


def test_answers_cannot_be_framed_sniffed_or_read_by_others(server: Server) -> None:
    for path in ("/", "/api/v1/runs", "/api/v1/runs/none"):
        _, headers, _ = server.open("GET", path)
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "access-control-allow-origin" not in headers


# ------------------------------------------------------------------ files


@pytest.mark.parametrize(
    "path",
    [
        "/../../../../etc/passwd",
        "/..%2f..%2f..%2fetc%2fpasswd",
        "/assets/../../app.py",
        "/assets/%2e%2e/%2e%2e/app.py",
        "/static/../app.py",
        "//etc/passwd",
        "/.git/config",
        "/%00",
        "/assets\\..\\..\\app.py",
    ],
)
def test_no_path_leaves_the_page(server: Server, path: str) -> None:
    sock = socket.create_connection(("127.0.0.1", server.port))
    sock.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
    data = b""
    while piece := sock.recv(65536):
        data += piece
    sock.close()
    assert b"root:" not in data
    assert b"def build_app" not in data


def test_code_is_shown_of_files_the_graph_names_and_no_others(
    server: Server, tmp_path: Path
) -> None:
    code = tmp_path / "train.py"
    lines = [f"# line {number}" for number in range(1, 120)]
    for number in (10, 11, 12, 13, 20, 21, 30, 31):
        type_ = {10: "x", 11: "addmm", 12: "tanh", 13: "add", 20: "log", 21: "mean"}.get(number)
        type_ = type_ or {30: "mul", 31: "sub_"}[number]
        lines[number - 1] = f"    x = self.{type_}(x)  # line {number}"
    lines[98] = "loss = model(x).mean()"
    code.write_text("\n".join(lines))
    secret = tmp_path / "secret.py"
    secret.write_text("password = 1\n")
    nodes = [node for node in sample_graph(1, str(code)) if node.phase != "backward"]
    rank = FakeRank(server.rank_port, run="code", nodes=nodes).start()
    path = "/runs/code/code?line=12&around=1&file="
    server.wait_for("/runs/code", lambda run: bool(run["ranks"][0]["graphs"]))
    shown = server.get(path + quote(str(code)))
    assert shown["first"] == 11
    assert [line.strip() for line in shown["lines"]][1] == "x = self.tanh(x)  # line 12"
    for other in (str(secret), "/etc/passwd", f"{code}/../secret.py", "../secret.py", ""):
        status, problem = server.ask("GET", path + quote(other))
        assert status in (400, 404)
        assert problem["slug"] in ("no-such-file", "bad-request")
    code.write_text("something else\n")
    changed = server.get(path + quote(str(code)))
    assert [line for line in changed["lines"] if line] == [
        "x = self.addmm(x)  # line 11",
        "x = self.tanh(x)  # line 12",
        "x = self.add(x)  # line 13",
    ]
    rank.close()


def test_a_rank_cannot_make_the_server_read_what_is_no_code(server: Server, tmp_path: Path) -> None:
    (tmp_path / "innocent.py").symlink_to("/etc/passwd")
    fifo = tmp_path / "pipe.py"
    os.mkfifo(fifo)
    for number, file in enumerate((str(tmp_path / "innocent.py"), "/etc/passwd", str(fifo))):
        rank = FakeRank(server.rank_port, run=f"spy{number}", nodes=sample_graph(1, file)).start()
        server.wait_for(f"/runs/spy{number}", lambda run: bool(run["ranks"][0]["graphs"]))
        shown = server.get(f"/runs/spy{number}/code?line=12&file={quote(file)}")
        assert not any("root:" in line for line in shown["lines"])
        rank.close()


# ------------------------------------------------------------------ requests that make no sense


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/runs/steady/graph/level?rank=x", None),
        ("GET", "/runs/steady/graph/level?graph=99999999999999999999999999", None),
        ("GET", "/runs/steady/graph/tree?offset=-1", None),
        ("GET", "/runs/steady/nodes?limit=100000000", None),
        ("GET", "/runs/steady/nodes?category=secret", None),
        ("GET", "/runs/steady/op", None),
        ("GET", "/runs/steady/tensor/table?op=a&slot=x", None),
        ("GET", "/runs/steady/tensor/table?op=data&slot=-5", None),
        ("GET", f"/runs/steady/tensor/table?op=data&index={quote('[' * 500)}", None),
        ("GET", "/runs/steady/hits?verdict=maybe", None),
        ("GET", "/runs/steady/loss?rank=77", None),
        ("POST", "/runs/steady/control", {"command": "explode"}),
        ("POST", "/runs/steady/control", {"command": "step", "steps": 0}),
        ("POST", "/runs/steady/control", {"command": "to"}),
        ("POST", "/runs/steady/control", [1, 2]),
        ("POST", "/runs/steady/keep", {"ops": ["a"], "steps": 10**9}),
        ("POST", "/runs/steady/keep", {"ops": ["a"] * 20_001}),
        ("POST", "/runs/steady/keep", {"ops": ["a" * 10_001]}),
        ("POST", "/runs/steady/record", {"op": "a" * 10_001}),
        ("POST", "/runs/steady/control", {"command": "to", "op": "a" * 10_001}),
        ("POST", "/runs/steady/recheck", {}),  # Nothing is watched.
        ("PUT", "/runs/steady/watchpoints/x", {"name": "x", "conditions": []}),
        ("PUT", "/runs/steady/watchpoints/99", {"name": "x", "conditions": []}),
        ("DELETE", "/runs/steady/watchpoints/99", None),
        ("DELETE", "/runs/steady", None),
        ("GET", "/runs/nobody", None),
        ("GET", "/runs/steady/nothing", None),
        ("GET", "/nothing", None),
    ],
)
def test_a_request_that_makes_no_sense_is_a_problem(
    server: Server, method: str, path: str, body: object
) -> None:
    status, problem = server.ask(method, path, body)
    assert 400 <= status < 500, problem
    assert set(problem) == {"error", "slug"}
    assert is_well(server)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PATCH", "/runs"),
        ("POST", "/runs"),
        ("DELETE", "/runs/steady/hits"),
        ("PUT", "/runs/steady/control"),
        ("PATCH", "/no/such/route"),
    ],
)
def test_a_method_that_a_route_does_not_have_is_a_problem(
    server: Server, method: str, path: str
) -> None:
    status, found = server.ask(method, path, {})
    expected = (405, "bad-request") if method == "PATCH" else (404, "no-such-file")
    assert (status, found["slug"]) == expected
    assert found["error"]


def test_a_caller_that_leaves_within_a_body_is_not_a_failure(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    head = (
        "POST /api/v1/runs/steady/keep HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    )
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", server.port)) as sock:
            sock.sendall(head.encode())
    assert is_well(server)
    assert is_well(server)
    assert "failed" not in caplog.text


def test_a_huge_body_is_refused(server: Server) -> None:
    data = b'{"name": "' + b"x" * (9 << 20) + b'", "conditions": []}'
    status, _, body = server.open("POST", "/api/v1/runs/steady/watchpoints", data)
    assert (status, msgspec.json.decode(body)["slug"]) == (413, "too-large")


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[" * 100_000, b'{"command": "\xff"}', b"null", b'{"command": 1e999}']
)
def test_a_body_that_is_no_json_is_refused(server: Server, body: bytes) -> None:
    status, _, _ = server.open("POST", "/api/v1/runs/steady/control", body)
    assert status == 400
    assert is_well(server)


@pytest.mark.parametrize(
    ("number", "said"), [("NaN", "nan"), ("1e999", "inf"), ("-Infinity", "-inf")]
)
def test_a_number_that_is_not_finite_is_named(server: Server, number: str, said: str) -> None:
    body = (
        '{"name": "x", "conditions": [{"id": "tensor_overflow"}, {"id": "tensor_too_large", '
        f'"parameters": {{"max_gt": {number}}}}}]}}'
    )
    status, _, data = server.open("POST", "/api/v1/runs/steady/watchpoints", body.encode())
    error = msgspec.json.decode(data)["error"]
    assert (status, error) == (
        400,
        f"request body: conditions[1].parameters.max_gt must be a finite number (got {said})",
    )
