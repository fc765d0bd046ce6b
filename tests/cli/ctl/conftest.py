"""A server of the debugger, and a simulated rank that is connected to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.serving_in_thread import Server, serving

from sonde.debugger.launch.server_registry import ServerState, announce_server
from sonde.testing.fake_rank import FakeRank


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runtime").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.delenv("SONDE_DEBUGGER_TOKEN", raising=False)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as found:
        state = ServerState.of("127.0.0.1", found.port, found.rank_port, found.token)
        with announce_server(state):
            yield found


@pytest.fixture
def rank(server: Server) -> Iterator[FakeRank]:
    found = FakeRank(server.rank_port).start()
    server.wait_for("/runs", lambda answer: answer["runs"][0]["ranks"][0]["state"] == "paused")
    yield found
    found.close()
