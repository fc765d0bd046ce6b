"""What a hostile network and a hostile rank can do at the port of the ranks: nothing."""

import random
import socket
import struct
import threading
from collections.abc import Iterator
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.server.serving_in_thread import Server
from tests.server.steady import is_well, serving_a_steady_rank

from sonde.testing.fake_rank import FakeRank, RankSocket
from sonde.testing.sample_graph import sample_graph
from sonde.testing.sample_values import SAMPLE_TOKEN, sample_metadata
from sonde.wire.rank import MOST_BYTES, PROTOCOL, Answer, GraphPart, Hello, Status, encoder


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving_a_steady_rank() as found:
        yield found


def connected(server: Server) -> socket.socket:
    found = socket.create_connection(("127.0.0.1", server.rank_port), 10)
    found.settimeout(10)
    return found


def framed(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


HELLO = framed(encoder.encode(Hello(PROTOCOL, SAMPLE_TOKEN, "noise", sample_metadata(), False)))
STATUS = framed(encoder.encode(Status("running", 0, None, None, None, None, "", 0)))


def is_closed(sock: socket.socket) -> bool:
    """The server ends the connection, perhaps after some messages."""
    try:
        while sock.recv(65536):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"\xff" * 64,
        struct.pack(">I", MOST_BYTES + 1),
        struct.pack(">I", 2**32 - 1) + b"x" * 100,
        framed(b""),
        framed(b"\xc1"),
        framed(b"\x93\x01\x02\x03"),
        framed(b"\xdd\xff\xff\xff\xff"),
        framed(b"\x91" * 5000),
        framed(encoder.encode({"kind": "hello"})),
        framed(encoder.encode({"kind": "goodbye", "exit_code": 0, "error": ""})),
        STATUS,
        HELLO + framed(b"\x91" * 100_000),
        HELLO + framed(b"garbage"),
        HELLO + struct.pack(">I", MOST_BYTES + 1),
        HELLO + framed(encoder.encode(GraphPart(0, "g", 5, (), 10))),
        HELLO + framed(encoder.encode(GraphPart(0, "g", -1, (), 10))),
    ],
)
def test_a_connection_that_sends_garbage_ends_without_other_effects(
    server: Server, data: bytes
) -> None:
    sock = connected(server)
    sock.sendall(data)
    assert is_closed(sock)
    sock.close()
    assert is_well(server)


def test_a_rank_that_dies_within_a_message_is_lost_and_nothing_else(server: Server) -> None:
    for cut in (1, 3, 4, 5, 20, len(HELLO) - 1, len(HELLO) + 2, len(HELLO) + len(STATUS) - 3):
        sock = connected(server)
        sock.sendall((HELLO + STATUS)[:cut])
        # Closing a socket with unread bytes resets the connection, which hides where it ended.
        sock.shutdown(socket.SHUT_WR)
        assert is_closed(sock)
        sock.close()
    run = server.wait_for("/runs/noise", lambda run: "within a message" in str(run["notices"]))
    assert run["ranks"][0]["state"] == "lost"
    assert is_well(server)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=300), st.booleans(), st.booleans())
def test_random_bytes_do_no_harm(
    server: Server, data: bytes, says_hello: bool, is_framed: bool
) -> None:
    sock = connected(server)
    sock.sendall((HELLO if says_hello else b"") + (framed(data) if is_framed else data))
    sock.close()
    assert is_well(server)


def test_messages_with_flipped_bits_do_no_harm(server: Server) -> None:
    random.seed(0)
    part = framed(encoder.encode(GraphPart(0, "g", 0, sample_graph(1), None)))
    for _ in range(100):
        damaged = bytearray(HELLO + part + STATUS)
        for _ in range(3):
            damaged[random.randrange(len(damaged))] ^= 1 << random.randrange(8)
        sock = connected(server)
        sock.sendall(damaged)
        sock.close()
    assert is_well(server)
    for run in server.get("/runs")["runs"]:
        server.ask("GET", f"/runs/{quote(run['id'])}/graph/level")
        server.ask("GET", f"/runs/{quote(run['id'])}/hits")


def test_answers_without_a_question_are_dropped(server: Server) -> None:
    sock = RankSocket("127.0.0.1", server.rank_port)
    sock.send(Hello(PROTOCOL, SAMPLE_TOKEN, "chatty", sample_metadata(), False))
    for request in (-1, 0, 1, 2**40):
        sock.send(Answer(request, b"x" * 1000, more=True))
        sock.send(Answer(request, error="no", slug="x"))
    sock.send(Status("paused", 0, None, None, None, "start", "", 0))
    server.wait_for("/runs/chatty", lambda run: run["ranks"][0]["state"] == "paused")
    sock.close()


def test_an_answer_that_is_something_else_is_a_problem(server: Server) -> None:
    sock = RankSocket("127.0.0.1", server.rank_port)
    sock.send(Hello(PROTOCOL, SAMPLE_TOKEN, "liar", sample_metadata(), False))
    sock.receive()
    found: list[tuple[int, object]] = []
    path = "/runs/liar/tensor/table?op=x"
    asking = threading.Thread(target=lambda: found.append(server.ask("GET", path)))
    asking.start()
    ask = sock.receive()
    sock.send(Answer(ask.request, b"\xc1\xc1"))  # type: ignore[union-attr]
    asking.join(20)
    assert found[0][0] == 502
    sock.close()


def test_graphs_with_absurd_names_are_shown(server: Server) -> None:
    base = sample_graph(1)
    odd = [
        msgspec.structs.replace(base[2], name="x" * 5000, scope="/".join("abc" * 300)),
        msgspec.structs.replace(base[2], name="//", scope="//"),
        msgspec.structs.replace(base[2], name="", scope=""),
        msgspec.structs.replace(base[2], name="same", scope="a"),
        msgspec.structs.replace(base[2], name="same", scope="a/b"),
        msgspec.structs.replace(base[2], name="<script>", scope="<b>"),
    ]
    rank = FakeRank(server.rank_port, run="odd", nodes=odd).start()
    server.wait_for("/runs/odd", lambda run: bool(run["ranks"][0]["graphs"]))
    level = server.get("/runs/odd/graph/level")
    assert {node["path"] for node in level["nodes"]} >= {"a/", "<b>/"}
    for node in level["nodes"]:
        if node["what"] == "scope":
            server.get(f"/runs/odd/graph/level?scope={quote(node['path'])}")
    server.get("/runs/odd/graph/tree")
    rank.close()
