"""Without the token a server answers nothing."""

import socket
from collections.abc import Iterator

import pytest
from tests.server.serving_in_thread import Server, serving
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from sonde.testing.fake_rank import FakeRank, RankSocket
from sonde.testing.sample_values import sample_metadata
from sonde.wire.rank import PROTOCOL, Hello, Refused

TOKEN = "a-secret-that-nobody-knows"


@pytest.fixture(scope="module")
def guarded() -> Iterator[Server]:
    """A server that believes it listens to the world."""
    with serving(host="0.0.0.0", token=TOKEN) as found:
        yield found


def test_nothing_is_answered_without_the_token(guarded: Server) -> None:
    for path in ("/", "/index.html", "/api/v1/runs", "/api/v1/openapi.json", "/api/v1/docs"):
        assert guarded.open("GET", path, Authorization="")[0] == 401
    assert guarded.ask("GET", "/runs", Authorization="Bearer wrong")[0] == 401
    assert guarded.ask("GET", "/runs", Authorization=f"Basic {TOKEN}")[0] == 401
    assert guarded.ask("GET", "/runs", Cookie=f"sonde_token_{guarded.port}=wrong")[0] == 401
    assert guarded.ask("GET", "/runs", Cookie="=;;;\x01")[0] in (400, 401)
    assert guarded.open("GET", "/?token=wrong")[0] == 401
    assert guarded.ask("GET", f"/runs?token={TOKEN}", Authorization="")[0] == 401
    address = f"ws://127.0.0.1:{guarded.port}/api/v1/events"
    with pytest.raises(InvalidStatus), connect(address):
        pass


def test_the_token_opens_by_header_and_by_cookie(guarded: Server) -> None:
    assert guarded.ask("GET", "/runs", Authorization=f"Bearer {TOKEN}")[0] == 200
    sock = socket.create_connection(("127.0.0.1", guarded.port))
    sock.sendall(f"GET /runs/a?token={TOKEN}&x=1 HTTP/1.1\r\nHost: me\r\n\r\n".encode())
    data = b""
    while b"</html>" not in data:
        data += sock.recv(65536)
    head = data.decode()
    sock.close()
    assert head.startswith("HTTP/1.1 200")
    assert 'content="0; url=/runs/a?x=1"' in head
    assert "token=" not in head.partition("\r\n\r\n")[2]
    cookie = next(line for line in head.splitlines() if line.startswith("set-cookie"))
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Secure" not in cookie  # Not under plain HTTP, where it would not be sent back.
    given = cookie.partition(": ")[2].partition(";")[0]
    assert guarded.ask("GET", "/runs", Cookie=given)[0] == 200
    headers = {"Cookie": given}
    with connect(f"ws://127.0.0.1:{guarded.port}/api/v1/events", additional_headers=headers):
        pass


def test_the_redirect_leads_nowhere_else(guarded: Server) -> None:
    sock = socket.create_connection(("127.0.0.1", guarded.port))
    sock.sendall(f"GET //evil.example/?token={TOKEN} HTTP/1.1\r\nHost: me\r\n\r\n".encode())
    head = b""
    while b"</html>" not in head:
        head += sock.recv(65536)
    sock.close()
    assert b'content="0; url=/evil.example/"' in head


def test_the_token_is_not_logged(guarded: Server, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG"):
        guarded.open("GET", f"/?token={TOKEN}")
        guarded.ask("GET", "/runs", Authorization=f"Bearer {TOKEN}")
    assert TOKEN not in caplog.text


def test_a_rank_needs_the_token(guarded: Server) -> None:
    for token in ("", "wrong", TOKEN[:-1]):
        rank = RankSocket("127.0.0.1", guarded.rank_port)
        rank.send(Hello(PROTOCOL, token, "mine", sample_metadata(), False))
        assert isinstance(rank.receive(), Refused)
        rank.close()
    FakeRank(guarded.rank_port, token=TOKEN).start().close()
