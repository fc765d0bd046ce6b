"""Requests and messages that no program of ours sends: they get one clear answer, and leave nothing
behind."""

import json
import socket
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.server.rank_conversation import OVERFLOW, RankConversation
from tests.server.serving_in_thread import Server, serving

from sonde.server.live.run import LiveRun
from sonde.testing.fake_rank import FakeRank, RankSocket
from sonde.testing.sample_values import SAMPLE_TOKEN, sample_metadata
from sonde.wire.framing import frame
from sonde.wire.rank import PROTOCOL, Hello, Welcome

HUGE = [10**30, -(10**30), 2**63, -(2**63) - 1]


@pytest.mark.parametrize("number", HUGE)
def test_an_integer_of_more_than_64_bits_is_refused_in_one_line(
    server: Server, number: int
) -> None:
    rank = FakeRank(server.rank_port, run="r").start()
    queries = [
        f"/runs/r/tensor/summary?op=x&step={number}",
        f"/runs/r/tensor/table?op=x&slot={abs(number)}",
        f"/runs/r/hits?offset={number}",
        f"/runs/r/nodes?limit={number}",
        f"/runs/r/graph/level?graph={number}",
        f"/runs/r/loss?after={number}",
    ]
    for query in queries:
        status, found = server.ask("GET", query)
        assert (status, found["slug"]) == (400, "bad-request"), query
        assert "\n" not in found["error"]
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("/runs/r/watchpoints", {**OVERFLOW, "ranks": [number]}),
        ("/runs/r/watchpoints", {**OVERFLOW, "break_after": number}),
        ("/runs/r/control", {"command": "step", "steps": number}),
        ("/runs/r/keep", {"ops": ["x"], "steps": number}),
    ]
    for path, body in bodies:
        status, found = server.ask("POST", path, body)
        assert (status, found["slug"]) == (400, "bad-request"), body
    assert server.get("/runs/r/watchpoints")["watchpoints"] == []
    run = server.runs.find("r")
    assert isinstance(run, LiveRun)
    assert run.ranks[0].link is not None
    assert run.ranks[0].link._waiting == {}
    rank.close()
    FakeRank(server.rank_port, run="r").start().close()  # Others can still join.


def test_a_question_that_cannot_be_sent_leaves_no_entry(server: Server) -> None:
    rank = FakeRank(server.rank_port, run="r").start()
    for _ in range(70):  # More than a rank may have open.
        status, found = server.ask("GET", f"/runs/r/tensor/summary?op=x&step={10**30}")
        assert status == 400, found
    run = server.runs.find("r")
    assert isinstance(run, LiveRun)
    link = run.ranks[0].link
    assert link is not None

    async def fail() -> int:
        from sonde.wire.shapes import TensorName

        with pytest.raises(OverflowError):
            await link.ask(TensorName("x", step=10**30), b"")
        return len(link._waiting)

    import asyncio

    assert asyncio.run_coroutine_threadsafe(fail(), server.loop).result(30) == 0
    rank.close()


def test_watchpoints_that_do_not_fit_into_a_message_are_not_stored(server: Server) -> None:
    rank = FakeRank(server.rank_port, run="r").start()
    draft = {**OVERFLOW, "ops": ["x" * 90_000] * 11}
    answers = [server.ask("POST", "/runs/r/watchpoints", draft)[0] for _ in range(20)]
    assert set(answers) == {200, 400}
    assert len(server.get("/runs/r/watchpoints")["watchpoints"]) == answers.count(200)
    rank.close()
    with RankConversation(server, run="r") as again:
        assert again is not None
    FakeRank(server.rank_port, run="r").start().close()


@pytest.mark.parametrize("letters", [300, 3_000, 7_000, 20_000, 60_000])
def test_a_long_address_is_no_failure_of_the_server(server: Server, letters: int) -> None:
    for path in (f"/{'a' * letters}", f"/assets/{'a' * letters}", f"/?q={'a' * letters}"):
        assert server.open("GET", path)[0] in (200, 404, 414)
    assert server.open("GET", f"/{'a' * 7000}")[0] == 414
    assert server.open("GET", f"/assets/{'a' * 300}")[0] == 404
    assert server.get("/runs")["runs"] == []


def test_a_long_header_is_refused(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), 30) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 200_000 + b"\r\n\r\n")
        try:
            answer = sock.recv(1 << 16)
        except ConnectionResetError:
            answer = b""
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["continue", "step", "tensor_overflow", "name-regex((a+)+b)", "all"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["command", "steps", "rank", "conditions", "id", "ops", "ranks", "name"]
            )
            | st.text(max_size=8),
            inner,
            max_size=6,
        )
    ),
    max_leaves=12,
)
ROUTES = [
    ("POST", "/runs/r/control"),
    ("POST", "/runs/r/keep"),
    ("POST", "/runs/r/watchpoints"),
    ("PUT", "/runs/r/watchpoints/1"),
    ("PUT", "/runs/r/watchpoints/file"),
]


@pytest.fixture(scope="module")
def fuzzed() -> Any:
    with serving() as found:
        rank = FakeRank(found.rank_port, run="r").start()
        yield found
        rank.close()


@given(st.sampled_from(ROUTES), VALUES)
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_body_makes_the_server_fail(fuzzed: Server, route: tuple[str, str], body: Any) -> None:
    data = json.dumps(body, default=str).encode("utf-8", "replace")
    status, _, found = fuzzed.open(route[0], f"/api/v1{route[1]}", data)
    assert status < 500, (route, body, found)
    assert fuzzed.get("/runs")["runs"][0]["id"] == "r"


PARAMETERS = st.dictionaries(
    st.sampled_from(["rank", "graph", "step", "op", "slot", "offset", "limit", "line", "file"]),
    st.integers(-(10**40), 10**40).map(str) | st.text(max_size=10),
    max_size=5,
)
READ = ["hits", "nodes", "graph/level", "graph/tree", "op", "code", "loss", "tensor/summary"]


@given(st.sampled_from(READ), PARAMETERS)
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_query_makes_the_server_fail(fuzzed: Server, path: str, query: dict[str, str]) -> None:
    from urllib.parse import urlencode

    text = urlencode(query, errors="replace")
    status, _, found = fuzzed.open("GET", f"/api/v1/runs/r/{path}?{text}")
    assert status < 500, (path, query, found)


@given(st.binary(max_size=200), st.booleans())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_bytes_of_a_rank_make_the_server_fail(
    fuzzed: Server, data: bytes, is_framed: bool
) -> None:
    rank = RankSocket("127.0.0.1", fuzzed.rank_port)
    rank.send(Hello(PROTOCOL, SAMPLE_TOKEN, "noise", sample_metadata(), False))
    rank.receive()
    rank.raw.sendall((len(data).to_bytes(4, "big") if is_framed else b"") + data)
    rank.close()
    assert any(run["id"] == "r" for run in fuzzed.get("/runs")["runs"])


def test_a_welcome_survives_every_field(server: Server) -> None:
    """The server can always encode what it must send to a rank that joins."""
    rank = FakeRank(server.rank_port, run="r").start()
    draft = {**OVERFLOW, "ranks": [2**63 - 1], "break_after": 2**31 - 1}
    assert server.ask("POST", "/runs/r/watchpoints", draft)[0] == 200
    rank.close()
    again = FakeRank(server.rank_port, run="r").start()
    assert isinstance(again.welcome, Welcome)
    assert msgspec.msgpack.decode(frame(again.welcome)[4:])["watchpoints"][0]["ranks"] == [
        2**63 - 1
    ]
    again.close()
