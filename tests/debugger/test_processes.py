"""Real programs under the debugger."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from tests.debugger.hub import Hub, watchpoint
from tests.debugger.running import PROGRAMS, environment, finish, plain, start
from tests.server.waiting import until
from tests.warm_python.starting import warm_python

from sonde.cli.ctl_client import Client
from sonde.debugger.launch.probe import is_server
from sonde.debugger.launch.server_registry import running_servers
from sonde.debugger.settings import DEFAULT_HOST, DEFAULT_PORT
from sonde.wire.questions import AskTable, Table
from sonde.wire.rank import Goodbye

pytestmark = pytest.mark.slow


def test_a_script_is_debugged_unchanged_and_computes_the_same_bits() -> None:
    specs = (
        watchpoint(1, "tensor_overflow"),
        watchpoint(2, "weight_change_too_large", abs_mean_update_ratio_gt=100.0),
        watchpoint(3, "gradient_too_large", abs_mean_gt=1e9),
    )
    with Hub(watchpoints=specs) as hub:
        process = start("small.py", 5, port=hub.port, python=sys.executable)
        rank = hub.rank()
        metadata = rank.hello.metadata
        assert metadata.script.endswith("small.py")
        assert (metadata.arguments, metadata.pid) == (("5",), process.pid)
        rank.paused()
        rank.control("to", op="Gradients/")
        assert rank.paused().op is not None
        rank.control("continue")
        rank.ended()
        output, _ = finish(process)
    assert output == plain("small.py", 5)
    assert process.returncode == 0
    assert rank.all(Goodbye) == [Goodbye(0, "")]


@pytest.mark.document(
    250,
    says="`TERMINATE`: terminating the training",
    how="button `Terminate`, key x, `sonde ctl terminate`; exit code 130",
)
def test_a_training_that_is_ended_has_the_exit_code_of_ctrl_c_and_no_traceback() -> None:
    with Hub() as hub:
        process = start("small.py", 50, port=hub.port)
        rank = hub.rank()
        rank.paused()
        rank.control("step", steps=3)
        rank.paused()
        rank.control("terminate")
        rank.ended()
        output, said = finish(process)
    assert process.returncode == 130
    assert len(output.splitlines()) == 2  # the third step has not been printed
    assert "sonde: the training was ended from the debugger" in said
    assert "Traceback" not in said


@pytest.mark.document(
    253,
    says="the debugger does not support distributed training scenarios",
    how="the ranks of `torchrun` are paused, stepped and shown together",
)
def test_ranks_of_one_training_are_one_run() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with Hub() as hub:
        process = start("two_ranks.py", port, port=hub.port)
        # The program itself connects first, as rank 0, and makes way for its children.
        first, second = hub.rank(0, connection=1), hub.rank(1)
        assert first.hello.run == second.hello.run == hub.rank(0).hello.run
        assert [each.hello.metadata.world_size for each in (first, second)] == [2, 2]
        for rank in (first, second):
            assert rank.paused().reason == "start"
        for rank in (first, second):
            rank.control("step", steps=2)
        tables = []
        for rank in (first, second):
            assert rank.paused().step == 2
            tables.append(rank.answer("weight", AskTable(), Table).values)
        assert tables[0] == tables[1]
        for rank in (first, second):
            rank.control("continue")
        for rank in (first, second):
            rank.ended()
        output, said = finish(process)
    assert process.returncode == 0, said
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    assert output == plain("two_ranks.py", port)


def two_ranks(program: str, *arguments: str, hub: Hub) -> list[subprocess.Popen[str]]:
    """Started one by one, as a launcher does."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    return [
        start(
            program,
            *arguments,
            port=hub.port,
            RANK=str(rank),
            WORLD_SIZE="2",
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=port,
            SONDE_RUN_ID="both",
        )
        for rank in range(2)
    ]


def test_nan_that_came_from_another_rank_are_said_to_maybe_have() -> None:
    spec = msgspec.structs.replace(watchpoint(1, "tensor_overflow"), break_after=0)
    with Hub(paused=False, watchpoints=(spec,)) as hub:
        processes = two_ranks("poisons_other.py", hub=hub)
        ranks = [hub.rank(number) for number in range(2)]
        for process in processes:
            finish(process)
        for rank in ranks:
            rank.ended()
    first = [next(hit for hit in rank.hits if hit.part == "producer") for rank in ranks]
    assert first[1].op == "Default/log-op0"
    assert first[1].why == "16 NaN among 16 elements"
    assert first[0].op.rpartition("/")[2] == "c10d_allreduce_-op0"
    assert first[0].why.endswith("; another rank may have made them")


@pytest.mark.parametrize("exchanging", ["gradients", "buffers"])
def test_a_rank_whose_collective_fails_as_another_is_ended_ends_like_that_one(
    exchanging: str,
) -> None:
    with Hub() as hub:
        processes = two_ranks("ends_together.py", exchanging, hub=hub)
        ranks = [hub.rank(number) for number in range(2)]
        for command in ("step", "continue"):
            for rank in ranks:
                rank.paused()
            # Of the second time: rank 0 stands still, so that the other waits for it.
            for rank in ranks[command == "continue" :]:
                rank.control(command, steps=3)
        for rank in ranks:
            rank.control("terminate")
        said = [finish(process) for process in processes]
    assert [output for output, _ in said] == ["Terminated 0\n", "Terminated 1\n"]
    assert [process.returncode for process in processes] == [130, 130]
    assert "Traceback" not in said[0][1] + said[1][1]
    assert [rank.all(Goodbye)[0].exit_code for rank in ranks] == [130, 130]


@pytest.mark.document(
    72,
    says="set breakpoints and get intermediate results of network execution; pdb",
    how="pdb works as usual; `sonde.breakpoint()` pauses in the debugger",
)
def test_a_program_that_asks_for_the_debugger_itself() -> None:
    with Hub(paused=False) as hub:
        process = subprocess.Popen(
            [warm_python(), str(PROGRAMS / "stops_itself.py")],
            env=environment(hub.port),
            stdout=subprocess.PIPE,
            text=True,
        )
        rank = hub.rank()
        status = rank.paused()
        assert status.reason == "breakpoint"
        assert "stops_itself.py:20" in status.message
        rank.control("terminate")
        rank.ended()
        output, _ = finish(process)
    assert output == "saved after 2\n"
    assert process.returncode == 0


def test_a_guard_pauses_the_training_at_a_trigger(tmp_path: Path) -> None:
    with Hub(paused=False) as hub:
        process = subprocess.Popen(
            [warm_python(), str(PROGRAMS / "guard_pauses.py"), str(tmp_path)],
            env=environment(hub.port),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        rank = hub.rank()
        status = rank.paused()
        assert (status.reason, status.message) == ("breakpoint", "the loss is nan")
        assert status.step == 2
        assert (tmp_path / "step_2.rank_0" / "manifest.json").is_file()
        rank.control("continue")
        output, said = finish(process)
    assert (output, process.returncode) == ("done\n", 0), said


@pytest.fixture
def _default_port_is_free() -> None:
    """A program that names no server connects to one there, whoever has started it."""
    if is_server(DEFAULT_HOST, DEFAULT_PORT):
        pytest.skip(f"a server listens at {DEFAULT_HOST}:{DEFAULT_PORT} of this machine")


def stops_everywhere(
    runtime: Path, complaints: int = subprocess.PIPE, **more: str
) -> subprocess.Popen[str]:
    """A program that names no server; ``runtime`` is where this user's servers are known."""
    return subprocess.Popen(
        [warm_python(), str(PROGRAMS / "stops_everywhere.py")],
        env=environment(None, XDG_RUNTIME_DIR=str(runtime), **more),
        stdout=subprocess.PIPE,
        stderr=complaints,
        text=True,
    )


@pytest.mark.usefixtures("_default_port_is_free")
def test_ranks_that_all_stop_by_themselves_share_the_server_that_one_of_them_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    reading, writing = os.pipe()
    ranks = [
        stops_everywhere(tmp_path, writing, RANK=str(rank), WORLD_SIZE="2", SONDE_RUN_ID="both")
        for rank in range(2)
    ]
    os.close(writing)
    with open(reading, encoding="utf-8") as complaints:
        said = [next(line for line in complaints if "the page is at" in line)]
        (server,) = running_servers()
        both = ["paused", "paused"]
        until(server.address, "/runs/both", lambda run: [r["state"] for r in run["ranks"]] == both)
        process = os.pidfd_open(server.pid)
        # The server stays for the other one, whoever of them started it.
        for rank in range(2):
            body = {"command": "continue", "rank": rank}
            Client(server.url, server.token).send("POST", "/runs/both/control", body)
            ranks[rank].wait(60)
        said += complaints
    assert [finish(rank)[0] for rank in ranks] == ["done\n", "done\n"], said
    assert [rank.returncode for rank in ranks] == [0, 0], said
    assert "".join(said).count("sonde: the page is at") == 1
    assert "[debugger-lost]" not in "".join(said)
    assert select.select([process], [], [], 100)[0], "the server has not ended"
    os.close(process)
    assert running_servers() == []


@pytest.mark.usefixtures("_default_port_is_free")
def test_a_program_goes_on_where_no_server_can_be_started(tmp_path: Path) -> None:
    package = tmp_path / "uvicorn"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('broken', name='uvicorn')")
    process = stops_everywhere(tmp_path, PYTHONPATH=str(tmp_path))
    output, said = finish(process)
    assert (process.returncode, output) == (0, "done\n")
    assert said.count("the program goes on without the debugger") == 1
    assert said.rstrip().endswith("[extra-missing]")
