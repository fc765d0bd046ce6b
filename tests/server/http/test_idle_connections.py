"""Connections that say nothing, or too slowly, take nothing from others."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.server.serving_in_thread import Server, serving

from sonde.server.http import body
from sonde.server.http.idle_connections import MOST_IDLE, IdleConnections
from sonde.testing.fake_rank import FakeRank
from sonde.testing.sample_values import SAMPLE_TOKEN

BEGINNINGS = {
    "page": [b"", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-", b"GET"],
    "ranks": [b"", b"\0", b"\0\0\1\0abc"],
}

BEARER = f"Authorization: Bearer {SAMPLE_TOKEN}\r\n".encode()


@contextmanager
def crowd(port: int, beginning: bytes, count: int) -> Iterator[list[socket.socket]]:
    found: list[socket.socket] = []
    try:
        for _ in range(count):
            found.append(socket.create_connection(("127.0.0.1", port), timeout=100))
            found[-1].sendall(beginning)
        yield found
    finally:
        for each in found:
            each.close()


def is_closed(connection: socket.socket) -> bool:
    """Whether the server hung up; waits for that no longer than the connection's timeout."""
    try:
        while connection.recv(1 << 16):
            pass
        return True
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as found:
        yield found


@pytest.mark.parametrize(
    ("port", "beginning"), [(port, each) for port, all_ in BEGINNINGS.items() for each in all_]
)
def test_many_idle_connections_do_not_keep_others_out(
    server: Server, port: str, beginning: bytes
) -> None:
    number = server.port if port == "page" else server.rank_port
    with crowd(number, beginning, MOST_IDLE + 50) as connections:
        rank = FakeRank(server.rank_port, run="amidst").start()
        try:
            server.wait_for("/runs/amidst", lambda run: run["ranks"][0]["state"] == "paused")
        finally:
            rank.close()
        assert all(map(is_closed, connections[:40]))
        connections[-1].settimeout(0.05)
        assert not is_closed(connections[-1])


@pytest.mark.parametrize("port", BEGINNINGS)
def test_who_says_nothing_for_long_is_sent_away(port: str) -> None:
    with serving(idle_seconds=0.3) as server:
        number = server.port if port == "page" else server.rank_port
        with crowd(number, BEGINNINGS[port][1], 2) as connections:
            assert all(map(is_closed, connections))


def test_a_connection_must_send_its_next_request_in_time() -> None:
    request = b"GET /api/v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\n" + BEARER + b"\r\n"
    with serving(idle_seconds=0.5) as server, crowd(server.port, request, 1) as connections:
        assert connections[0].recv(1 << 16).startswith(b"HTTP/1.1 200")
        connections[0].sendall(b"GET /api/v1/ru")  # uvicorn's own patience ends with any letter.
        assert is_closed(connections[0])


def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "BODY_SECONDS", 0.2)
    head = (
        b"POST /api/v1/runs/run-1/keep HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        + BEARER
        + b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    )
    with serving() as server:
        rank = FakeRank(server.rank_port).start()
        server.wait_for("/runs/run-1", lambda run: run["ranks"][0]["state"] == "paused")
        with crowd(server.port, head, 1) as connections:
            assert connections[0].recv(1 << 16).startswith(b"HTTP/1.1 408")
        rank.close()


def test_a_request_that_takes_long_is_not_cut_off() -> None:
    with serving(idle_seconds=0.3) as server:
        rank = FakeRank(server.rank_port, run="slow", steps=1000, step_seconds=0.01).start()
        try:
            server.wait_for("/runs/slow", lambda run: run["ranks"][0]["state"] == "paused")
            body = {"command": "continue", "wait_seconds": 1.0}
            assert server.post("/runs/slow/control", body)["ranks"][0]["state"] == "running"
        finally:
            rank.close()


def test_of_too_many_the_one_that_waits_longest_goes() -> None:
    async def scenario() -> None:
        gone: list[str] = []
        crowd = IdleConnections(most=2, seconds=60)
        for name in "abc":
            crowd.opened(name, lambda name=name: gone.append(name))
        assert (gone, len(crowd)) == (["a"], 2)
        crowd.opened("b", lambda: gone.append("b"))  # It was heard of; now it waits again.
        crowd.opened("d", lambda: gone.append("d"))
        assert gone == ["a", "c"]
        crowd.active("b")
        crowd.active("d")
        crowd.active("nobody")
        assert len(crowd) == 0

    asyncio.run(scenario())
