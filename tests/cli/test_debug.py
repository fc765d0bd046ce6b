"""``sonde debug``: server and training together."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.cli.replayed_steps import guarded
from tests.debugger.running import PROGRAMS, environment, plain
from tests.leftovers import descendants
from tests.server.waiting import until
from tests.warm_python.starting import warm_python

from sonde.cli import desktop
from sonde.cli.ctl_client import Client
from sonde.core.errors import UsageError
from sonde.debugger.launch import server_process

pytestmark = pytest.mark.slow

SMALL = str(PROGRAMS / "small.py")
COMMAND = ["-m", "sonde", "debug", "--port", "0", "--debugger-port", "0"]


def _states(found: Any) -> list[list[str]]:
    """Of every rank of every run."""
    return [[rank["state"] for rank in run["ranks"]] for run in found["runs"]]


class Debugged:
    """The command as it runs; ``api`` asks its server."""

    def __init__(
        self,
        *words: str,
        python: str | None = None,
        command: Sequence[str] = COMMAND,
        **variables: str,
    ) -> None:
        self.process = subprocess.Popen(
            [python or warm_python(), *command, *words],
            env=environment(None, **variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        first = self.process.stderr.readline()
        found = re.fullmatch(
            r"sonde: the page is at (http://127\.0\.0\.1:\d+/\?token=(\S{32,}))\n", first
        )
        assert found is not None, first + self.process.stderr.read()
        self.page = found[1]
        self._token = found[2]
        self.said = [first]
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def api(self, path: str, **body: Any) -> Any:
        request = urllib.request.Request(
            f"{self.page.partition('?')[0]}api/v1/{path}",
            data=json.dumps(body).encode() if body else None,
            headers={
                "content-type": "application/json",
                "authorization": f"Bearer {self._token}",
            },
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def run_in_state(self, state: str) -> dict[str, Any]:
        """The run, once its rank is in ``state``."""
        runs = until(self.page, "/runs", lambda found: _states(found) == [[state]])["runs"]
        return dict(runs[0])

    def heard(self, words: str) -> None:
        """Wait until the command has said so."""
        with self._news:
            assert self._news.wait_for(lambda: words in "".join(self.said), 60), self.said

    def _read(self) -> None:
        for line in self.process.stderr or ():
            with self._news:
                self.said.append(line)
                self._news.notify_all()

    def wait(self) -> tuple[int, str, str]:
        assert self.process.stdout is not None
        output = self.process.stdout.read()
        code = self.process.wait(60)
        self._reader.join(60)
        self.process.stdout.close()
        assert self.process.stderr is not None
        self.process.stderr.close()
        return code, output, "".join(self.said)


def test_it_waits_before_the_first_step_and_ends_as_the_script_does() -> None:
    debugged = Debugged("--exit", "--no-open", SMALL, "3")
    run = debugged.run_in_state("paused")
    assert run["title"] == "small.py 3"
    debugged.api(f"runs/{run['id']}/control", command="continue")
    code, output, said = debugged.wait()
    assert (code, output) == (0, plain("small.py", 3))
    assert "paused in step 0: before the first step" in said


def test_watchpoints_of_the_command_line_pause_the_training_and_the_page_ends_it(
    tmp_path: Path,
) -> None:
    points = tmp_path / "points.json"
    condition = {"id": "tensor_overflow", "parameters": {}, "expression": ""}
    points.write_text(
        json.dumps({"version": 1, "watchpoints": [{"name": "nan", "conditions": [condition]}]})
    )
    debugged = Debugged("--exit", "--no-pause", "--watch", str(points), SMALL, "5", "2")
    run = debugged.run_in_state("paused")
    (rank,) = run["ranks"]
    assert (rank["step"], rank["op"]) == (2, "Default/network-Net/log-op0")
    assert [spec["name"] for spec in run["watchpoints"]] == ["nan"]
    (hit,) = debugged.api(f"runs/{run['id']}/hits")["hits"]
    assert (hit["part"], hit["source"]["code"]) == ("producer", "x = torch.log(x - 2)")
    debugged.api(f"runs/{run['id']}/control", command="terminate")
    code, _, said = debugged.wait()
    assert code == 130
    assert "the training was ended from the debugger" in said


def test_a_captured_step_is_executed_again_and_again_until_the_page_ends_it(
    tmp_path: Path,
) -> None:
    step = guarded(tmp_path)
    debugged = Debugged(
        str(step), "--debug", "--exit", "--port", "0", command=["-m", "sonde", "replay"]
    )
    run = debugged.run_in_state("paused")
    debugged.api(f"runs/{run['id']}/control", command="continue")
    debugged.heard("sqrt")
    run = debugged.run_in_state("paused")
    assert "sqrt" in run["ranks"][0]["op"]
    debugged.api(f"runs/{run['id']}/control", command="terminate")
    code, _, said = debugged.wait()
    assert code == 130, said


def test_the_page_outlives_a_training_that_fails(tmp_path: Path) -> None:
    script = tmp_path / "fails.py"
    script.write_text(
        "import torch\ntorch.nn.Linear(2, 2)(torch.ones(2))\nraise OSError('no data')\n"
    )
    debugged = Debugged("--no-pause", str(script))
    run = debugged.run_in_state("ended")
    assert run["ranks"][0]["metadata"]["script"] == str(script)
    debugged.heard("the page stays")
    debugged.process.send_signal(signal.SIGINT)
    code, _, said = debugged.wait()
    assert code == 1
    assert "OSError: no data" in said
    assert "the page stays" in said
    with pytest.raises(OSError, match="refused"):
        debugged.api("runs")


def test_a_signal_to_the_command_ends_training_and_server() -> None:
    debugged = Debugged("--no-open", SMALL, "2", python=sys.executable)
    debugged.run_in_state("paused")
    debugged.process.terminate()
    code, _, said = debugged.wait()
    assert code == 143
    assert "the page stays" not in said
    with pytest.raises(OSError, match="refused"):
        debugged.api("runs")


def test_the_server_does_not_outlive_a_command_that_was_killed() -> None:
    debugged = Debugged("--no-open", SMALL, "2", python=sys.executable, SONDE_DEBUGGER_LOST="0")
    debugged.run_in_state("paused")
    debugged.process.kill()
    code, output, said = debugged.wait()  # of the training, too, which goes on and ends
    assert (code, output) == (-9, plain("small.py", 2))
    assert "[debugger-lost]" in said
    with pytest.raises(OSError, match="refused"):
        debugged.api("runs")


@pytest.mark.skipif(sys.platform != "linux", reason="finds the server in /proc")
def test_a_page_whose_server_was_killed_is_not_reported_as_available() -> None:
    debugged = Debugged("--no-open", SMALL, "2", python=sys.executable, SONDE_DEBUGGER_LOST="0")
    debugged.run_in_state("paused")
    us = debugged.process.pid
    children = Path(f"/proc/{us}/task/{us}/children").read_text().split()
    (server,) = (pid for pid in children if b"serve" in Path(f"/proc/{pid}/cmdline").read_bytes())
    os.kill(int(server), signal.SIGKILL)
    code, output, said = debugged.wait()
    assert (code, output) == (0, plain("small.py", 2))
    assert said.endswith("the page is closed, because its server has ended\n")


@pytest.mark.parametrize(
    ("words", "slug"),
    [
        ([], "usage"),
        (["no_such_script.py"], "program-not-found"),
        (["--watch", "no_such_file.json", SMALL], "watchpoint-file"),
        (["--host", "203.0.113.7", SMALL], "port"),
        (["--port", "99999", SMALL], "port"),
        (["--token", "two words", SMALL], "usage"),
    ],
)
def test_impossible_options_are_reported_before_anything_runs(words: list[str], slug: str) -> None:
    done = subprocess.run(
        [warm_python(), *COMMAND, *words],
        env=environment(None),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stderr.rstrip().endswith(f"[{slug}]")
    assert len(re.findall(r"\[[a-z-]+\]", done.stderr)) == done.stderr.count("\n") == 1
    assert done.stdout == ""


def with_torchrun(*words: str) -> tuple[Debugged, dict[str, Any]]:
    """Two ranks, both of which stand before their first step, and their run."""
    launched = ("torchrun", "--standalone", "--nproc-per-node", "2", *words)
    debugged = Debugged("--exit", "--no-open", *launched)
    both = [["paused", "paused"]]
    found = until(debugged.page, "/runs", lambda found: _states(found) == both, seconds=100)
    return debugged, found["runs"][0]


def test_every_rank_that_torchrun_starts_is_debugged() -> None:
    debugged, run = with_torchrun(SMALL, "2")
    assert [rank["metadata"]["world_size"] for rank in run["ranks"]] == [2, 2]
    assert run["title"] == "small.py 2"
    debugged.api(f"runs/{run['id']}/control", command="continue")
    code, output, said = debugged.wait()
    assert code == 0, said
    assert sorted(output.splitlines()) == sorted(2 * plain("small.py", 2).splitlines())


def test_ranks_of_torchrun_that_are_ended_have_the_exit_code_of_ctrl_c_and_no_traceback() -> None:
    debugged, run = with_torchrun(SMALL, "50")
    debugged.api(f"runs/{run['id']}/control", command="terminate")
    code, _, said = debugged.wait()
    assert code == 130, said
    assert said.count("sonde: the training was ended from the debugger") == 2
    assert "Traceback" not in said


def test_a_rank_that_would_start_its_own_server_gets_advice() -> None:
    done = subprocess.run(
        [warm_python(), *COMMAND, SMALL],
        env=environment(None, RANK="1", WORLD_SIZE="2"),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "sonde debug torchrun --nproc-per-node 2 SCRIPT" in done.stderr


def test_a_program_that_never_began_leaves_no_page_behind() -> None:
    code, _, said = Debugged("--no-open", "-m", "no_such_module").wait()
    assert code == 2
    assert said.splitlines()[2:] == ["sonde: No module named no_such_module [program-not-found]"]


def test_ctrl_c_while_the_server_starts_ends_it_without_a_traceback(tmp_path: Path) -> None:
    package = tmp_path / "uvicorn"
    package.mkdir()
    here = tmp_path / "here"
    os.mkfifo(here)
    # Opening the pipe returns when the other side has opened it; no data follows, so it stays open.
    (package / "__init__.py").write_text(f"open({str(here)!r}, 'w'); open({str(here)!r})")
    process = subprocess.Popen(
        [sys.executable, *COMMAND, SMALL],
        env=environment(None, PYTHONPATH=str(tmp_path)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with here.open():
        pass
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "sonde: interrupted\n")


def test_ports_taken_in_the_meantime_are_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        busy = taken.getsockname()[1]
        monkeypatch.setattr(server_process, "free_port", lambda host, port: busy)
        server = server_process.ServerProcess()
        try:
            assert server.rank_port not in (0, busy)
            assert f":{busy}/" not in server.page
        finally:
            server.end()
        with pytest.raises(UsageError, match="already in use"):
            server_process.ServerProcess(port=busy)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_token_is_in_no_process_list_and_in_no_line_but_the_addresses(tmp_path: Path) -> None:
    token = "only-those-who-know-it-may-enter"
    process = subprocess.Popen(
        [sys.executable, *COMMAND, "--host", "0.0.0.0", "--no-open", "--exit", SMALL, "2"],
        env=environment(None, XDG_RUNTIME_DIR=str(tmp_path), SONDE_DEBUGGER_TOKEN=token),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    lines = iter(process.stderr.readline, "")
    said = [next(lines), next(lines)]  # The address for this machine and that for others.
    said += [next(line for line in lines if "paused" in line)]
    for pid in (process.pid, *descendants(process.pid)):
        assert token.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
    (state,) = (tmp_path / "sonde-servers").glob("*.json")
    assert state.stat().st_mode & 0o077 == state.parent.stat().st_mode & 0o077 == 0
    port = json.loads(state.read_text())["port"]
    client = Client(f"http://127.0.0.1:{port}", token)
    with pytest.raises(UsageError, match="wrong token"):
        Client(f"http://127.0.0.1:{port}", "wrong").get("/runs")
    (run,) = client.get("/runs")["runs"]
    client.send("POST", f"/runs/{run['id']}/control", {"command": "continue"})
    output, rest = process.communicate(timeout=60)
    assert (process.returncode, output) == (0, plain("small.py", 2))
    assert [line.partition(" at http://")[0] for line in said if token in line] == [
        "sonde: the page is",
        "sonde: from other machines it is",
    ]
    assert token not in rest


def test_a_browser_is_not_started_with_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    desktop.open_page("http://127.0.0.1:8080/?token=a%26b&tab=compare")
    (address,) = opened
    assert "token" not in address
    file = Path(urllib.request.url2pathname(address.removeprefix("file://")))
    assert file.stat().st_mode & 0o077 == 0
    assert "url=http://127.0.0.1:8080/?token=a%26b&amp;tab=compare" in file.read_text()
    desktop.forget_page()
    assert not file.exists()


def test_the_names_of_the_document_work_with_sonde_run() -> None:
    environ = {**environment(None), "ENABLE_MS_DEBUGGER": "1", "MS_DEBUGGER_PORT": "1"}
    environ["SONDE_DEBUGGER_WAIT"] = "0"
    done = subprocess.run(
        [warm_python(), "-m", "sonde", "run", SMALL, "1"],
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0
    assert "no debugger server at 127.0.0.1:1" in done.stderr
    assert os.environ.get("MS_DEBUGGER_PORT") is None
