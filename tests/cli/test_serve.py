"""The server as a process."""

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote
from urllib.request import HTTPCookieProcessor, ProxyHandler, Request, build_opener

import pytest

from sonde.cli.main import main
from sonde.cli.serve import _print_addresses, serve
from sonde.debugger.launch.server_registry import ServerState
from sonde.server import serving as serving_module
from sonde.server.serving import ServerOptions
from sonde.testing.fake_rank import FakeRank, RankSocket
from sonde.testing.sample_values import sample_metadata
from sonde.wire.rank import PROTOCOL, Hello, Welcome

OPENER = build_opener(ProxyHandler({}))


@dataclass
class Process:
    popen: "subprocess.Popen[str]"
    url: str
    token: str
    rank_port: int

    def get(self, path: str, **headers: str) -> bytes:
        request = Request(self.url + path)
        request.add_header("Authorization", f"Bearer {self.token}")
        for name, value in headers.items():
            request.add_header(name, value)
        with OPENER.open(request, timeout=100) as answer:
            data: bytes = answer.read()
        return data


@contextmanager
def serving(runtime: Path, *words: str, env: dict[str, str] | None = None) -> Iterator[Process]:
    """``sonde serve`` on free ports, with its files below ``runtime``."""
    command = [sys.executable, "-m", "sonde", "serve", "--port", "0", "--debugger-port", "0"]
    environ = {**os.environ, "XDG_RUNTIME_DIR": str(runtime), **(env or {})}
    popen = subprocess.Popen(
        [*command, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ
    )
    try:
        assert popen.stdout is not None
        page = re.fullmatch(
            r"sonde: the page is at (\S+?)/\?token=(\S+)\n", popen.stdout.readline()
        )
        lines = iter(popen.stdout.readline, "")
        ranks = next(filter(None, (re.search(r"connect to port (\d+):", line) for line in lines)))
        assert page is not None
        yield Process(popen, page[1], unquote(page[2]), int(ranks[1]))
    finally:
        popen.terminate()
        popen.communicate(timeout=100)


def test_the_server_prints_its_address_and_ends_on_a_signal(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        told = {"runs": [], "rank_port": server.rank_port, "fingerprint": ""}
        assert json.loads(server.get("/api/v1/runs")) == told
        assert b"<!doctype html>" in server.get("/").lower()
        assert stat.S_IMODE((tmp_path / "sonde-servers").stat().st_mode) == 0o700
        files = list((tmp_path / "sonde-servers").iterdir())
        assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o600]
        assert json.loads(files[0].read_text())["rank_port"] == server.rank_port
        server.popen.send_signal(signal.SIGINT)
        assert server.popen.wait(30) == 0
        assert not list((tmp_path / "sonde-servers").iterdir())


def test_the_server_has_no_framework_in_it(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        rank = FakeRank(server.rank_port, token=server.token).start()
        server.get("/api/v1/runs/run-1/graph/level")
        maps = Path(f"/proc/{server.popen.pid}/maps").read_text()
        rank.close()
        assert "libtorch" not in maps
        status = Path(f"/proc/{server.popen.pid}/status").read_text()
        resident = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert resident is not None
        assert int(resident[1]) < 150_000


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_everybody_needs_the_token_that_is_made_up(host: str, tmp_path: Path) -> None:
    with serving(tmp_path, "--host", host) as server:
        state = json.loads(next((tmp_path / "sonde-servers").iterdir()).read_text())
        assert len(state["token"]) >= 32
        assert state["token"] == server.token
        server.get("/api/v1/runs")
        with pytest.raises(OSError, match="401"):
            server.get("/api/v1/runs", Authorization="Bearer wrong")
        with pytest.raises(ConnectionRefusedError, match="token"):
            FakeRank(server.rank_port, token="").start()


def test_trainings_on_other_machines_get_a_reachable_host_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _print_addresses(ServerState.of("0.0.0.0", 8080, 50051, "secret"))
    said = capsys.readouterr().out
    assert f"SONDE_DEBUGGER_HOST={socket.gethostname()} SONDE_DEBUGGER_PORT=50051 " in said
    assert "0.0.0.0" not in said


def test_a_token_can_be_given(tmp_path: Path) -> None:
    token = "mine-and-only-mine"
    with serving(tmp_path, env={"SONDE_DEBUGGER_TOKEN": token}) as server:
        with pytest.raises(OSError, match="401"):
            server.get("/api/v1/runs", Authorization="Bearer wrong")
        FakeRank(server.rank_port, token=token).start().close()


def test_a_token_may_have_any_characters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token = "a&b=%41;'+\"/?#,:@!$"
    with serving(tmp_path, env={"SONDE_DEBUGGER_TOKEN": token}) as server:
        FakeRank(server.rank_port, token=token).start().close()
        state = json.loads(next((tmp_path / "sonde-servers").glob("*.json")).read_text())
        said = ServerState.of("127.0.0.1", state["port"], None, token).address
        opener = build_opener(ProxyHandler({}), HTTPCookieProcessor())
        assert opener.open(said, timeout=100).status == 200  # By the cookie, after a redirect.
    assert main(["serve", "--port", "0", "--token", "two words"]) == 2
    assert "without spaces [usage]" in capsys.readouterr().err


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="needs IPv6")
def test_a_server_at_all_addresses_is_one_for_both_kinds(tmp_path: Path) -> None:
    token = "mine-and-only-mine"
    with serving(tmp_path, "--host", "::", env={"SONDE_DEBUGGER_TOKEN": token}) as server:
        for host in ("127.0.0.1", "::1"):
            rank = RankSocket(host, server.rank_port)
            rank.send(Hello(PROTOCOL, token, "run", sample_metadata(), False))
            assert isinstance(rank.receive(), Welcome)
            rank.close()
            page = int(server.url.rpartition(":")[2])
            socket.create_connection((host, page), 30).close()


def test_a_token_that_could_be_guessed_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--port", "0", "--host", "0.0.0.0", "--token", "secret"]) == 2
    assert capsys.readouterr().err == (
        "sonde: a token of 6 characters can be guessed: use at least 16 characters, or omit the "
        "token and the server generates one [token]\n"
    )


def test_without_pause_trainings_run_at_once(tmp_path: Path) -> None:
    with serving(tmp_path, "--no-pause") as server:
        rank = FakeRank(server.rank_port, token=server.token, steps=3).start()
        rank.join()
        run = json.loads(server.get("/api/v1/runs/run-1"))
        assert run["ranks"][0]["message"] == "ended with exit code 0"


@pytest.mark.document(
    216,
    says="`mindinsight start --port {PORT} --enable-debugger True --debugger-port {DEBUGGER_PORT}`",
    how="`sonde start` with the same options; it is `sonde serve`",
)
def test_the_command_of_mindinsight_starts_the_server(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[ServerOptions] = []
    monkeypatch.setattr(serving_module, "serve", lambda options, ready: started.append(options))
    words = ["start", "--port", "8081", "--debugger-port", "50052"]
    for more in ([], ["--enable-debugger", "True"], ["--enable-debugger", "False"]):
        assert main([*words, *more]) == 0
    assert [(each.port, each.rank_port) for each in started] == [
        (8081, 50052),
        (8081, 50052),
        (8081, None),
    ]
    assert main([*words, "--enable-debugger", "maybe"]) == 2
    said = capsys.readouterr().err
    assert "'--enable-debugger': 'maybe' is neither True nor False" in said
    assert said.endswith("try 'sonde start --help' [usage]\n")


def test_a_server_without_the_debugger_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    _print_addresses(ServerState.of("127.0.0.1", 8080, None, "secret"))
    assert capsys.readouterr().out.splitlines()[1:] == [
        "sonde: trainings cannot connect: --enable-debugger is False"
    ]


@pytest.mark.parametrize("word", ["", "2"])
def test_a_word_that_is_neither_true_nor_false_is_refused(
    word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["start", "--enable-debugger", word]) == 2
    assert f"'--enable-debugger': {word!r} is neither True nor False;" in capsys.readouterr().err


def test_a_taken_port_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert main(["serve", "--port", port, "--debugger-port", "0"]) == 2
        assert "choose another port with --port" in capsys.readouterr().err
        assert main(["serve", "--port", "0", "--debugger-port", port]) == 2
        assert "choose another port with --debugger-port [port]" in capsys.readouterr().err


@pytest.mark.document(
    215,
    says="`--port {PORT}`: 8080, 1~65535; `--debugger-port {DEBUGGER_PORT}`: 50051, 1~65535",
    how="`sonde serve` with the same options and defaults; 0 takes any free port",
)
def test_the_ports_are_those_of_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    defaults = {option.name: option.default for option in serve.params}
    assert (defaults["port"], defaults["debugger_port"]) == (8080, 50051)
    for option in ("--port", "--debugger-port"):
        assert main(["serve", "--port", "0", "--debugger-port", "0", option, "65536"]) == 2
        said = capsys.readouterr().err
        assert "0 to 65535" in said
        assert len(said.splitlines()) == 1


@pytest.mark.parametrize("host", ["192.0.2.1", "a..b"])
def test_an_address_of_another_machine_is_reported(
    host: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--host", host, "--port", "0", "--debugger-port", "0"]) == 2
    assert "give an address of this machine with --host [port]" in capsys.readouterr().err


def test_a_missing_package_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["serve"]) == 2
    assert "pip install 'sonde[debugger]' [extra-missing]" in capsys.readouterr().err
