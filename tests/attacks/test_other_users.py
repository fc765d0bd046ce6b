"""Another user of the machine, who has no token, reaches the ports of the server."""

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.serving_in_thread import Server, serving
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from sonde.debugger.launch.server_registry import (
    ServerState,
    access_to,
    announce_server,
    running_servers,
    state_directory,
)
from sonde.server.http.auth import new_token
from sonde.testing.fake_rank import RankSocket
from sonde.testing.sample_values import sample_metadata
from sonde.wire.rank import PROTOCOL, Hello, Refused


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that listens on loopback only."""
    with serving() as found:
        yield found


@pytest.mark.parametrize("given", ["", "Bearer ", "Bearer x", "Basic the-token-of-a-sample-server"])
def test_no_request_is_answered_without_the_token(server: Server, given: str) -> None:
    for path in ("/api/v1/runs", "/api/v1/openapi.json", "/api/v1/conditions"):
        status, _, body = server.open("GET", path, Authorization=given)
        assert (status, json.loads(body)["slug"]) == (401, "token")
    body = json.dumps({"command": "terminate"}).encode()
    assert server.open("POST", "/api/v1/runs/r/control", body, Authorization=given)[0] == 401


def test_the_event_socket_needs_the_token(server: Server) -> None:
    address = f"ws://127.0.0.1:{server.port}/api/v1/events"
    with pytest.raises(InvalidStatus) as refusal, connect(address):
        pass
    assert refusal.value.response.status_code == 403


def test_the_page_asks_for_the_token_and_contains_nothing_else(server: Server) -> None:
    status, headers, body = server.open("GET", "/?run=a%22%3E%3Cscript%3E", Authorization="")
    assert status == 401
    assert b'<input name="token" type="password"' in body
    assert b"<script" not in body
    assert "default-src 'none'" in headers["content-security-policy"]
    wrong = server.open("GET", "/?token=wrong", Authorization="")
    assert wrong[0] == 401
    assert b"This token is wrong" in wrong[2]
    assert b"wrong-token-value" not in wrong[2]


def test_a_rank_without_the_token_is_refused(server: Server) -> None:
    for token in ("", "x", server.token[:-1], server.token + "x"):
        rank = RankSocket("127.0.0.1", server.rank_port)
        rank.send(Hello(PROTOCOL, token, "theirs", sample_metadata(), False))
        assert isinstance(rank.receive(), Refused)
        rank.close()
    assert server.get("/runs")["runs"] == []


def test_a_generated_token_has_more_than_128_bits() -> None:
    assert len(new_token()) * 6 >= 128
    assert len({new_token() for _ in range(1000)}) == 1000


def test_the_token_is_in_a_file_that_only_its_user_can_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    before = os.umask(0)
    try:
        with announce_server(ServerState.of("127.0.0.1", server.port, server.rank_port, "secret")):
            directory = state_directory()
            assert directory is not None
            assert stat.S_IMODE(directory.stat().st_mode) == 0o700
            (file,) = directory.iterdir()
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            assert access_to("127.0.0.1", server.rank_port) == ("secret", None)
            assert access_to("127.0.0.1", server.rank_port + 1) == ("", None)
            assert access_to("example.org", server.rank_port) == ("", None)
    finally:
        os.umask(before)


def test_a_directory_of_another_user_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "sonde-servers").mkdir(mode=0o700)
    (tmp_path / "sonde-servers").chmod(0o777)
    assert state_directory() is None
    assert running_servers() == []
    (tmp_path / "sonde-servers").rmdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "sonde-servers").symlink_to(tmp_path / "elsewhere")
    assert state_directory() is None
