"""``sonde ctl to`` and ``continue --wait``: how far a training runs, and the exit codes."""

from __future__ import annotations

import threading

import pytest
from tests.cli.ctl.terminal import ctl
from tests.server.serving_in_thread import Server, serving

from sonde.cli import ctl as ctl_command
from sonde.debugger.launch.server_registry import ServerState, announce_server
from sonde.testing.fake_rank import FakeRank, RankSocket
from sonde.testing.sample_graph import sample_graph
from sonde.testing.sample_values import SAMPLE_TOKEN, sample_metadata
from sonde.wire.rank import (
    PROTOCOL,
    Answer,
    Ask,
    ControlMessage,
    Goodbye,
    GraphPart,
    Hello,
    Status,
)

LOG = "Default/network-Net/loss-Loss/log-op0"


@pytest.mark.usefixtures("rank")
def test_a_training_runs_to_a_scope(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(
        FakeRank, "_obey", lambda self, control: (told.append(control.op), self._pause("op"))
    )
    for words in ("loss-Loss/", "Default/network-Net/loss-Loss/", "loss-Loss"):
        assert ctl(capsys, "to", words, "--no-wait")[0] == 0
    assert told == ["Default/network-Net/loss-Loss/"] * 3


def test_names_are_found_in_other_graphs_while_that_of_the_step_grows(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = sample_graph()
    rank = RankSocket("127.0.0.1", server.rank_port)
    rank.send(Hello(PROTOCOL, SAMPLE_TOKEN, "growing", sample_metadata(), False))
    rank.send(GraphPart(0, "Net", 0, nodes, len(nodes)))
    rank.send(GraphPart(1, "Net", 0, nodes[:1], None))
    rank.send(Status("paused", 2, 1, "data", 0, "op", "", 0))
    server.wait_for("/runs", lambda found: found["runs"][0]["ranks"][0]["graph"] == 1)
    assert ctl(capsys, "to", "act-Tanh/", "--no-wait") == (
        2,
        "sonde: 8 scopes match 'act-Tanh/': "
        + ", ".join(f"Default/network-Net/blocks-ModuleList/{n}-Block/act-Tanh/" for n in range(4))
        + ", Gradients/Default/network-Net/blocks-ModuleList/3-Block/act-Tanh/"
        "; give the full path [no-such-scope]\n",
    )
    assert ctl(capsys, "to", "1-Block/", "--no-wait")[0] == 0
    asked = threading.Thread(target=ctl, args=(capsys, "tensor", "blocks.1.linear.weight"))
    asked.start()
    while not isinstance(message := rank.receive(), Ask):
        assert message is not None
    assert message.tensor.op == "blocks.1.linear.weight"
    rank.send(Answer(message.request, error="so it was found", slug="no-such-tensor"))
    asked.join()
    rank.close()


def test_a_training_that_fails_or_is_late_has_its_own_exit_code(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = FakeRank(server.rank_port, run="slow", steps=10_000, step_seconds=0.01).start()
    code, text = ctl(capsys, "--run", "slow", "continue", "--wait", "--timeout", "0.1")
    assert (code, "timeout: the training still runs" in text) == (4, True)
    slow.close()
    fine = FakeRank(server.rank_port, run="fine", steps=2).start()
    assert ctl(capsys, "--run", "fine", "continue", "--wait")[0] == 0
    fine.join()
    lost = FakeRank(server.rank_port, run="lost", steps=10_000, step_seconds=0.01).start()
    killer = threading.Timer(0.3, lost.close)
    killer.start()
    assert ctl(capsys, "--run", "lost", "continue", "--wait")[0] == 3
    killer.join()


@pytest.mark.parametrize(("exit_code", "expected"), [(0, 0), (1, 3)])
def test_the_exit_code_of_a_training_decides_whatever_it_printed_last(
    server: Server, capsys: pytest.CaptureFixture[str], exit_code: int, expected: int
) -> None:
    rank = RankSocket("127.0.0.1", server.rank_port)
    rank.send(Hello(PROTOCOL, SAMPLE_TOKEN, "words", sample_metadata(), False))
    rank.send(Status("running", 0, None, None, None, None, "", 0))
    rank.send(Goodbye(exit_code, "ended with exit code 0"))
    server.wait_for("/runs", lambda found: found["runs"][0]["ranks"][0]["state"] == "ended")
    assert ctl(capsys, "continue", "--wait")[0] == expected
    rank.close()


def test_a_training_that_ends_before_the_op_comes_has_not_run_to_it(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    rank = FakeRank(server.rank_port, run="brief", steps=1).start()
    assert ctl(capsys, "--run", "brief", "to", LOG)[0] in (0, 1)
    code, text = ctl(capsys, "--run", "brief", "to", LOG)
    assert (code, f"ended before it reached {LOG}" in text) == (3, True)
    rank.join()


def test_the_client_continues_to_wait_after_the_timeout_of_the_server(
    server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctl_command, "_HELD_SECONDS", 0.01)
    monkeypatch.setattr(ctl_command, "_POLL_SECONDS", 0.02)
    rank = FakeRank(server.rank_port, run="long", steps=30, step_seconds=0.02).start()
    assert ctl(capsys, "--run", "long", "step", "10")[0] == 0
    assert server.get("/runs/long")["ranks"][0]["step"] == 10
    assert ctl(capsys, "--run", "long", "continue", "--wait", "--timeout", "0.05")[0] == 4
    assert ctl(capsys, "--run", "long", "continue", "--wait")[0] == 0
    assert server.get("/runs/long")["ranks"][0]["state"] == "ended"
    rank.join()


def test_a_server_and_a_training_that_come_soon_are_waited_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ctl(capsys, "--patience", "0.3", "status")[0] == 2
    with (
        serving() as late,
        announce_server(ServerState.of("127.0.0.1", late.port, late.rank_port, late.token)),
    ):
        assert ctl(capsys, "--patience", "0.3", "status") == (0, "no training is connected yet\n")
        assert ctl(capsys, "--patience", "0.3", "hits")[0] == 2
        ranks: list[FakeRank] = []
        begin = threading.Timer(0.5, lambda: ranks.append(FakeRank(late.rank_port).start()))
        begin.start()
        code, text = ctl(capsys, "--patience", "60", "continue", "--wait")
        assert (code, "rank 0: ended" in text) == (0, True)
        begin.join()
        ranks[0].join()
    assert ctl(capsys, "--patience", "-1", "status")[0] == 2


def test_the_exit_code_is_that_of_the_requested_rank(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    ranks = [
        FakeRank(server.rank_port, rank=number, steps=10_000, step_seconds=0.01).start()
        for number in (0, 1)
    ]
    server.wait_for("/runs/run-1", lambda run: len(run["ranks"]) == 2)
    assert ctl(capsys, "watch", "add", "tensor_overflow")[0] == 0
    assert ctl(capsys, "continue", "--wait", "--rank", "0")[0] == 1
    assert ctl(capsys, "watch", "remove", "1")[0] == 0
    code, text = ctl(capsys, "continue", "--wait", "--timeout", "0.1", "--rank", "1")
    assert (code, "rank 0: paused (hit)" in text, "timeout: the training still runs" in text) == (
        4,
        True,
        True,
    )
    for rank in ranks:
        rank.close()


@pytest.mark.document(227)
def test_a_step_without_the_op_is_reported_and_fails(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    rank = RankSocket("127.0.0.1", server.rank_port)
    rank.send(Hello(PROTOCOL, SAMPLE_TOKEN, "short", sample_metadata(), False))
    rank.send(Status("paused", 0, None, None, None, "start", "", 0))
    server.wait_for("/runs", lambda found: found["runs"] and found["runs"][0]["controls"])

    def run_a_step() -> None:
        while not isinstance(message := rank.receive(), ControlMessage):
            pass
        why = f"{message.op} did not run in step 0"
        rank.send(Status("paused", 1, 0, None, None, "missed", why, message.generation))

    training = threading.Thread(target=run_a_step)
    training.start()
    code, text = ctl(capsys, "to", "Default/relu-op7")
    training.join()
    assert code == 3
    assert text.splitlines()[1:] == [
        "  rank 0: paused (missed) step 1",
        "    Default/relu-op7 did not run in step 0",
    ]
    rank.close()
