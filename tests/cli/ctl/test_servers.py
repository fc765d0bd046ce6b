"""Which server ``sonde ctl`` talks to."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import msgspec
import pytest
from tests.cli.ctl.terminal import ctl
from tests.server.serving_in_thread import Server, serving

from sonde.debugger.launch.server_registry import ServerState, announce_server, running_servers
from sonde.testing.fake_rank import FakeRank

HIDDEN = "hidden-from-all-others"


def test_a_server_that_is_not_there_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = ctl(capsys, "status")
    assert (code, "you have no running server on this machine" in text) == (2, True)
    code, text = ctl(capsys, "--server", "127.0.0.1:1", "status")
    assert (code, "[no-server]" in text) == (2, True)
    assert ctl(capsys, "--server", "ftp://x", "status")[0] == 2


def test_the_token_of_the_user_s_own_server_is_found(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with serving(host="0.0.0.0", token=HIDDEN) as found:
        assert "requires its token" in ctl(capsys, "--server", found.url, "status")[1]
        assert ctl(capsys, "--server", found.url, "--token", "wrong", "status") == (
            2,
            "sonde: wrong token [token]\n",
        )
        assert ctl(capsys, "--server", found.url, "--token", HIDDEN, "status")[0] == 0
        printed = ServerState.of("0.0.0.0", found.port, found.rank_port, HIDDEN).address
        assert ctl(capsys, "--server", printed, "status")[0] == 0
        assert ctl(capsys, "--server", f"{printed}&run=a&tab=graph#x", "status")[0] == 0
        with announce_server(ServerState.of("0.0.0.0", found.port, found.rank_port, HIDDEN)):
            assert ctl(capsys, "status")[0] == 0
            assert ctl(capsys, "--server", found.url, "status")[0] == 0


def test_of_several_servers_the_newest_is_named(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    state = ServerState.of("127.0.0.1", server.rank_port, None, "")
    with announce_server(msgspec.structs.replace(state, started=0.0)):
        assert ctl(capsys, "status") == (
            0,
            "no training is connected yet\nsonde: you have 2 running servers on this "
            f"machine; using the newest, {server.url}; choose another with --server\n",
        )
        assert "servers" not in ctl(capsys, "--server", server.page, "status")[1]


def test_of_several_servers_none_is_changed(
    server: Server, rank: FakeRank, capsys: pytest.CaptureFixture[str]
) -> None:
    state = ServerState.of("127.0.0.1", server.rank_port, None, "")
    with announce_server(msgspec.structs.replace(state, started=0.0)):
        code, told = ctl(capsys, "terminate")
        assert code == 2
        assert f"several running servers on this machine: {server.url}, " in told
        assert "choose one with --server [usage]" in told


def test_files_of_dead_servers_and_of_other_users_are_ignored(tmp_path: Path) -> None:
    directory = tmp_path / "runtime" / "sonde-servers"
    dead = ServerState("http://127.0.0.1:1", "127.0.0.1", 1, None, "", 2**22 + 5, 0.0)
    directory.mkdir(mode=0o700)
    (directory / "dead.json").write_bytes(msgspec.json.encode(dead))
    (directory / "damaged.json").write_text("{")
    assert running_servers() == []
    assert not (directory / "dead.json").exists()
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        announce_server(ServerState.of("127.0.0.1", listening.getsockname()[1], None, "")),
    ):
        alive = ServerState.of("127.0.0.1", 1, None, "")  # Its number is that of a process here.
        (directory / "reused.json").write_bytes(msgspec.json.encode(alive))
        assert [state.port for state in running_servers()] == [listening.getsockname()[1]]
        os.chmod(directory, 0o777)
        assert running_servers() == []
        os.chmod(directory, 0o700)
